"""From a choice of tools to a draft."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from toolbank.llm.rules.english import Phrase, find_verb
from toolbank.llm.rules.glossary import load_glossary
from toolbank.llm.rules.lexicon import PLACES, QUESTION_WORDS, THINGS
from toolbank.llm.rules.profile import Profile
from toolbank.llm.rules.steps import say_step, write_draft
from toolbank.llm.rules.wording import fill, say_plainly

ASKED = 0.5
_OPENINGS = (
    "I have {x} {place}.",
    "I've got {x} {place}.",
    "Here are {x} {place}.",
    "There are {x} {place}.",
    "I'm looking at {x} {place}.",
    "We collected {x} {place}.",
    "I keep {x} {place}.",
    "These are {x} {place}.",
    "I was handed {x} {place}.",
    "My file holds {x} {place}.",
)


def write_request(profiles: Sequence[Profile], random: Random) -> str:
    """A draft whose steps need the profiled tools, in this order."""
    things = choose_things(profiles[0], random)
    steps = [write_step(profile, things, random) for profile in profiles]
    opening = ""
    if random.random() < 0.6:
        opening = random.choice(_OPENINGS).format(
            x=things, place=random.choice(PLACES).strip()
        )
    return write_draft(opening, steps, random)


def choose_things(profile: Profile, random: Random) -> str:
    """Data that one meets with what the tool is about."""
    glossary = load_glossary()
    for entry, _ in profile.terms[:4]:
        settings = glossary.entries[entry].settings
        if settings and random.random() < 0.6:
            return random.choice(settings)
    return random.choice(THINGS).strip()


def write_step(profile: Profile, things: str, random: Random) -> str:
    """One thing to be done that needs the tool."""
    asks = [
        (ask, weight)
        for entry, weight in profile.terms[:5]
        for ask in load_glossary().entries[entry].asks
    ]
    if asks and (not profile.told or random.random() < ASKED):
        ask = random.choices([a for a, _ in asks], [w * w for _, w in asks])[0]
        return say_step(read_ask(fill(ask, things, random)), random)
    phrase = random.choices([p for p, _ in profile.told], [w for _, w in profile.told])[
        0
    ]
    return say_step(say_plainly(phrase, things, random), random)


def read_ask(text: str) -> Phrase:
    """The kind of a glossary's ask, by its first words."""
    first, _, rest = text.partition(" ")
    if first in QUESTION_WORDS or text.startswith(("in which", "on which")):
        return Phrase("question", text)
    if find_verb(first, rest):
        return Phrase("do", text)
    return Phrase("thing", text)
