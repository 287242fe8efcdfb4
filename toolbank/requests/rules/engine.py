"""The engine `rules`: queries from the reference's own words, without a model."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING

from toolbank.bank.records import Tool
from toolbank.llm.chat import (
    ChatReply,
    ChatRequest,
    EngineError,
    Offers,
    PolishTask,
    WriteTask,
)
from toolbank.requests.rules.english import (
    PLACES,
    THINGS,
    Phrase,
    load_glossary,
    read_ask,
)
from toolbank.requests.rules.wording import Profile, Profiles, fill, say_plainly
from toolbank.requests.write.sampling import Affinity, RelatedOffers

if TYPE_CHECKING:
    from toolbank.requests.write.config import GenerateConfig


_FIRST = ("First", "First of all", "To start with", "Step one", "To begin")
_NEXT = ("Then", "Next", "After that", "Afterwards", "In the next step")
_LAST = ("Finally", "Last of all", "At the end", "To finish", "As the last step")
_ONLY = ("Just this", "Only this", "This alone")
_OPENER = re.compile(
    "(?:"
    + "|".join(
        re.escape(o)
        for o in sorted(_FIRST + _NEXT + _LAST + _ONLY, key=len, reverse=True)
    )
    + "), "
)
_THING_VERBS = (
    "find",
    "work out",
    "give me",
    "show me",
    "get me",
    "get",
    "produce",
    "come up with",
)
_QUESTION_VERBS = ("tell me", "find out", "work out")


def say_step(phrase: Phrase, random: Random) -> str:
    """A phrase as something to be done: "work out the total", "check whether ..."."""
    if phrase.kind == "do":
        return phrase.text
    if phrase.kind == "thing":
        return f"{random.choice(_THING_VERBS)} {phrase.text}"
    if phrase.text.startswith("whether"):
        return f"{random.choice(('check', 'tell me', 'find out'))} {phrase.text}"
    return f"{random.choice(_QUESTION_VERBS)} {phrase.text}"


def write_draft(opening: str, steps: list[str], random: Random) -> str:
    """The steps one after the other, a sentence each."""
    sentences = [opening] if opening else []
    for place, step in enumerate(steps):
        openers = _openers(place, len(steps))
        sentences.append(f"{random.choice(openers)}, {step}.")
    return " ".join(sentences)


def _openers(place: int, steps: int) -> tuple[str, ...]:
    if steps == 1:
        return _ONLY
    if place == 0:
        return _FIRST
    return _LAST if place == steps - 1 else _NEXT


def split_draft(draft: str) -> tuple[str, list[str]]:
    """The opening and the steps of a draft of `write_draft`."""
    parts = _OPENER.split(draft)
    return parts[0].strip(), [part.strip().rstrip(".") for part in parts[1:]]


def merge_steps(draft: str, random: Random) -> str:
    """The draft as one fluent request."""
    opening, steps = split_draft(draft)
    if not steps:
        return draft
    return random.choices(
        (_ask, _wish, _command, _question_first, _purpose), (3, 3, 4, 2, 2)
    )[0](opening, steps, random)


def _ask(opening: str, steps: list[str], random: Random) -> str:
    lead = random.choice(
        (
            "Can you",
            "Could you",
            "Could you please",
            "Would you",
            "Is there a way to",
        )
    )
    steps = [_impersonal(step) for step in steps] if lead.startswith("Is") else steps
    return _with(opening, f"{lead} {_join(steps, random)}?")


def _wish(opening: str, steps: list[str], random: Random) -> str:
    lead = random.choice(
        (
            "I'd like to",
            "I want to",
            "I need to",
            "I have to",
            "How do I",
            "What's the best way to",
            "Help me to",
        )
    )
    body = _join([_impersonal(step) for step in steps], random)
    end = "?" if lead.startswith(("How", "What")) else "."
    return _with(opening, f"{lead} {body}{end}")


def _command(opening: str, steps: list[str], random: Random) -> str:
    body = _join(steps, random)
    end = random.choice((".", ".", ", please.", "."))
    return _with(opening, body[0].upper() + body[1:] + end)


def _question_first(opening: str, steps: list[str], random: Random) -> str:
    body = _join(steps, random)
    return f"{body[0].upper()}{body[1:]}. {opening}".strip()


def _purpose(opening: str, steps: list[str], random: Random) -> str:
    first, *others = steps
    lead = random.choice(
        ("I'm trying to", "My plan is to", "What I'm after is to", "My job today is to")
    )
    if not others:
        return _with(opening, f"{lead} {_impersonal(first)}.")
    body = _join([_impersonal(step) for step in others], random)
    link = random.choice(
        ("and then to", "and after that to", "so that I can", "and from there to")
    )
    return _with(opening, f"{lead} {_impersonal(first)} {link} {body}.")


def _with(opening: str, body: str) -> str:
    return f"{opening} {body}".strip()


def _impersonal(step: str) -> str:
    for spoken, plain in (
        ("tell me ", "know "),
        ("give me ", "have "),
        ("show me ", "see "),
        ("get me ", "get "),
    ):
        if step.startswith(spoken):
            return plain + step.removeprefix(spoken)
    return step


def _join(steps: list[str], random: Random) -> str:
    if len(steps) == 1:
        return steps[0]
    last = random.choice((" and ", ", then ", " and then ", ", and also ", " and "))
    return ", ".join(steps[:-1]) + last + steps[-1]


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


VERSION = 2
_LEAST_AFFINITY = 0.05


class RulesEngine:
    """Writes and polishes requests from the reference's own words.

    A reply is a function of the tools, the task, the attempt and the seed alone.
    """

    name = "rules"
    model = f"rules-{VERSION}"

    def __init__(
        self, tools: Sequence[Tool], config: GenerateConfig, seed: int
    ) -> None:
        self._seed = seed
        self._positions = {tool.name: n for n, tool in enumerate(tools)}
        self._affinity = Affinity(tools)
        self._profiles = Profiles(tools)
        self.offers: Offers | None = None
        if config.sampling in (None, "related"):
            self.offers = RelatedOffers(tools, config, seed, self._affinity)
        content = json.dumps(
            [VERSION, seed, [t.model_dump() for t in tools]], sort_keys=True
        )
        self.identity = (
            f"{self.model}:{hashlib.sha256(content.encode()).hexdigest()[:16]}"
        )

    async def answer(self, request: ChatRequest) -> ChatReply:
        """Answer a write or polish request with the JSON that its schema asks for.

        Raises:
            EngineError: the request has no task, which is so of all but those two.
        """
        random = Random(f"{self._seed}:{request.step}:{request.attempt}")
        task = request.task
        if isinstance(task, WriteTask):
            reply = self._write(task, random)
        elif isinstance(task, PolishTask):
            reply = {
                "already_good": False,
                "reason": "steps merged",
                "query": merge_steps(task.draft, random),
            }
        else:
            raise EngineError(
                f"The engine rules writes and polishes, and is asked to {request.step}.",
                reason="not-its-task",
                fatal=True,
            )
        return ChatReply(json.dumps(reply, ensure_ascii=False), self.model)

    async def close(self) -> None:
        """Nothing is held."""

    def _write(self, task: WriteTask, random: Random) -> dict[str, object]:
        offered = [self._positions[tool.name] for tool in task.tools]
        chosen = self._choose(offered, task, random)
        if len(chosen) < task.at_least or self._profiles[chosen[0]].is_silent:
            return {
                "declined": True,
                "reason": "nothing offered belongs together",
                "tools": [],
                "explanation": "",
                "draft": "",
            }
        draft = write_request([self._profiles[n] for n in chosen], random)
        return {
            "declined": False,
            "reason": "",
            "tools": [task.tools[offered.index(n)].name for n in chosen],
            "explanation": self._explain(chosen),
            "draft": draft,
        }

    def _explain(self, chosen: list[int]) -> str:
        first, *others = chosen
        if not others:
            return "One tool serves it."
        reasons = sorted({self._affinity.reason(first, other) for other in others})
        return f"The tools go together: {', '.join(reasons)}."

    def _choose(self, offered: list[int], task: WriteTask, random: Random) -> list[int]:
        first, *others = offered
        rated = [(n, self._affinity.between(first, n)) for n in others]
        rated = [
            pair
            for pair in rated
            if pair[1] > _LEAST_AFFINITY and not self._profiles[pair[0]].is_silent
        ]
        wanted = random.choices((2, 3, 4, 5), (60, 30, 8, 2))[0]
        chosen = [first]
        while rated and len(chosen) < max(task.at_least, min(wanted, task.at_most)):
            pick = random.choices(range(len(rated)), [w for _, w in rated])[0]
            chosen.append(rated.pop(pick)[0])
        return chosen
