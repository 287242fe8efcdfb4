"""From a choice of tools to a draft."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from toolbank.generate.writers.rules.english import Phrase, read_ask
from toolbank.generate.writers.rules.glossary import load_glossary
from toolbank.generate.writers.rules.lexicon import PLACES, THINGS
from toolbank.generate.writers.rules.profile import Profile
from toolbank.generate.writers.rules.steps import say_step, write_draft
from toolbank.generate.writers.rules.wording import fill, say_plainly

ASKED = 0.5
CHOSEN = 0.15
EXPLAINED = 0.6
_TRIES = 4
OPENED = 0.4
PLACED = 0.4
NOTED = 0.2
_ASKED_TERMS = (0.7, 0.2, 0.1)
_PURPOSES = {
    "do": (
        ", that is, to ",
        ", or in other words to ",
        " so that I can ",
        " in order to ",
        ", basically to ",
    ),
    "thing": (
        ", I mean ",
        ", that is, ",
        ", in other words ",
        ", meaning ",
        " - basically ",
    ),
    "question": (
        " so that I know ",
        " to see ",
        " because I want to know ",
        " so I can tell ",
        " to find out ",
    ),
}
_FACT_LEADS = (
    "Bear in mind that",
    "Keep in mind that",
    "I know that",
    "Mind that",
    "As far as I know,",
)
_OPENINGS = (
    "I have {x}.",
    "I've got {x}.",
    "Here are {x}.",
    "There are {x}.",
    "I'm looking at {x}.",
    "We collected {x}.",
    "I keep {x}.",
    "This is about {x}.",
    "I was handed {x}.",
    "My file holds {x}.",
)


def write_request(profiles: Sequence[Profile], random: Random) -> str:
    """A draft whose steps need the profiled tools, in this order."""
    things = choose_things(profiles[0], random)
    steps: list[str] = []
    for profile in profiles:
        explained = EXPLAINED / 2 if steps else EXPLAINED
        for _ in range(_TRIES):
            step = write_step(profile, things, explained, random)
            if not any(_are_alike(step, said) for said in steps):
                break
        steps.append(step)
    opening = ""
    if profiles[0].takes_data and random.random() < OPENED:
        place = f" {random.choice(PLACES)}" if random.random() < PLACED else ""
        opening = random.choice(_OPENINGS).format(x=things + place)
    opening += write_fact(profiles, things, random)
    return write_draft(opening.strip(), steps, random)


def choose_things(profile: Profile, random: Random) -> str:
    """Data that one meets with what the tool is about."""
    glossary = load_glossary()
    for entry, _ in profile.terms[:4]:
        settings = glossary.entries[entry].settings
        if settings and random.random() < 0.6:
            return random.choice(settings)
    return random.choice(THINGS)


def write_step(profile: Profile, things: str, explained: float, random: Random) -> str:
    """One thing to be done that needs the tool, with its purpose in a share of `explained`."""
    told = [
        (phrase, weight) for phrase, weight in profile.told if phrase.kind != "fact"
    ]
    asked = profile.asked[: len(_ASKED_TERMS)]
    ask = None
    if asked:
        asks = random.choices(asked, _ASKED_TERMS[: len(asked)])[0]
        ask = read_ask(fill(random.choice(asks), things, random))
    if ask and (not told or random.random() < (1 - explained) * ASKED):
        return say_step(ask, random)
    phrase = random.choices([p for p, _ in told], [w for _, w in told])[0]
    if profile.takes_data:
        phrase = say_plainly(phrase, things, random)
    step = say_step(phrase, random)
    if ask and random.random() < explained:
        return step + explain_step(ask, random)
    if profile.choices and random.random() < CHOSEN:
        step += f", where I can set {random.choice(profile.choices)}"
    return step


def explain_step(ask: Phrase, random: Random) -> str:
    """What a step is for, in other words."""
    return random.choice(_PURPOSES[ask.kind]) + ask.text


def _are_alike(first: str, second: str) -> bool:
    a, b = set(first.split()), set(second.split())
    return len(a & b) > 0.5 * min(len(a), len(b))


def write_fact(profiles: Sequence[Profile], things: str, random: Random) -> str:
    """A sentence to keep in mind, from what the reference notes of the tools."""
    facts = [
        (phrase, profile.takes_data)
        for profile in profiles
        for phrase, _ in profile.told
        if phrase.kind == "fact"
    ]
    if not facts or random.random() > NOTED:
        return ""
    fact, takes_data = random.choice(facts)
    if takes_data:
        fact = say_plainly(fact, things, random)
    return f" {random.choice(_FACT_LEADS)} {fact.text}."
