"""The engine `rules`: write queries in the words of the reference, without a model."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING

from toolbank.bank.records import Tool
from toolbank.llm.chat import (
    AskTask,
    ChatReply,
    ChatRequest,
    Offers,
    PolishTask,
    WriteTask,
)
from toolbank.requests.rules.english import (
    PLACES,
    THINGS,
    Phrase,
    list_phrases,
    load_glossary,
    read_ask,
)
from toolbank.requests.rules.wording import Profile, Profiles, fill, say_plainly
from toolbank.requests.write.affinity import Affinity
from toolbank.requests.write.sampling import make_offers

if TYPE_CHECKING:
    from toolbank.requests.write.config import GenerateConfig


_FIRST, _NEXT, _LAST, _ONLY = (
    list_phrases(f"{place} step") for place in ("first", "next", "last", "only")
)
_OPENERS = sorted(_FIRST + _NEXT + _LAST + _ONLY, key=len, reverse=True)
_OPENER = re.compile(f"(?:{'|'.join(map(re.escape, _OPENERS))}), ")
_THING_VERBS = list_phrases("thing verbs")
_QUESTION_VERBS = list_phrases("question verbs")
_ASK_LEADS = list_phrases("ask leads")
_WISH_LEADS = list_phrases("wish leads")
_PURPOSE_LEADS = list_phrases("purpose leads")
_PURPOSE_LINKS = list_phrases("purpose links")


def say_step(phrase: Phrase, random: Random) -> str:
    """Word a phrase as something to do: "work out the total", "check whether ..."."""
    if phrase.kind == "do":
        return phrase.text
    verbs = _THING_VERBS
    if phrase.kind != "thing":
        is_truth = phrase.text.startswith("whether")
        verbs = ("check", "tell me", "find out") if is_truth else _QUESTION_VERBS
    return f"{random.choice(verbs)} {phrase.text}"


def write_draft(opening: str, steps: list[str], random: Random) -> str:
    """Write the steps one after the other, one sentence each."""
    sentences = [opening] if opening else []
    for place, step in enumerate(steps):
        if len(steps) == 1:
            openers = _ONLY
        elif place == 0:
            openers = _FIRST
        else:
            openers = _LAST if place == len(steps) - 1 else _NEXT
        sentences.append(f"{random.choice(openers)}, {step}.")
    return " ".join(sentences)


def split_draft(draft: str) -> tuple[str, list[str]]:
    """Split a draft of `write_draft` into its opening and its steps."""
    parts = _OPENER.split(draft)
    return parts[0].strip(), [part.strip().rstrip(".") for part in parts[1:]]


def merge_steps(draft: str, random: Random) -> str:
    """Rewrite a draft as one fluent request."""
    opening, steps = split_draft(draft)
    if not steps:
        return draft
    [write] = random.choices(
        (_ask, _wish, _command, _question_first, _purpose), (3, 3, 4, 2, 2)
    )
    return write(opening, steps, random).strip()


def _ask(opening: str, steps: list[str], random: Random) -> str:
    lead = random.choice(_ASK_LEADS)
    steps = [_impersonal(step) for step in steps] if lead.startswith("Is") else steps
    return f"{opening} {lead} {_join(steps, random)}?"


def _wish(opening: str, steps: list[str], random: Random) -> str:
    lead = random.choice(_WISH_LEADS)
    body = _join([_impersonal(step) for step in steps], random)
    return f"{opening} {lead} {body}{'?' if lead.startswith(('How', 'What')) else '.'}"


def _command(opening: str, steps: list[str], random: Random) -> str:
    body = _join(steps, random)
    end = random.choice((".", ".", ", please.", "."))
    return f"{opening} {body[0].upper()}{body[1:]}{end}"


def _question_first(opening: str, steps: list[str], random: Random) -> str:
    body = _join(steps, random)
    return f"{body[0].upper()}{body[1:]}. {opening}"


def _purpose(opening: str, steps: list[str], random: Random) -> str:
    first, *others = (_impersonal(step) for step in steps)
    lead = random.choice(_PURPOSE_LEADS)
    if not others:
        return f"{opening} {lead} {first}."
    body = _join(others, random)
    return f"{opening} {lead} {first} {random.choice(_PURPOSE_LINKS)} {body}."


def _impersonal(step: str) -> str:
    verb, me, rest = step.partition(" me ")
    plain = {"tell": "know", "give": "have", "show": "see", "get": "get"}.get(verb)
    return f"{plain} {rest}" if me and plain else step


def _join(steps: list[str], random: Random) -> str:
    if len(steps) == 1:
        return steps[0]
    last = random.choice((" and ", ", then ", " and then ", ", and also ", " and "))
    return ", ".join(steps[:-1]) + last + steps[-1]


_ASKED = 0.5
_CHOSEN = 0.15
_EXPLAINED = 0.6
_TRIES = 4
_OPENED = 0.4
_PLACED = 0.4
_NOTED = 0.2
_ASKED_TERMS = (0.7, 0.2, 0.1)
_PURPOSES = {
    kind: list_phrases(f"purposes of {kind}") for kind in ("do", "thing", "question")
}
_FACT_LEADS = list_phrases("fact leads")
_OPENINGS = list_phrases("openings")


def write_request(profiles: Sequence[Profile], random: Random) -> str:
    """Write a draft whose steps need the profiled tools, in this order."""
    things = choose_things(profiles[0], random)
    steps: list[str] = []
    for profile in profiles:
        explained = _EXPLAINED / 2 if steps else _EXPLAINED
        for _ in range(_TRIES):
            step = write_step(profile, things, explained, random)
            if not any(_are_alike(step, said) for said in steps):
                break
        steps.append(step)
    opening = ""
    if profiles[0].takes_data and random.random() < _OPENED:
        place = f" {random.choice(PLACES)}" if random.random() < _PLACED else ""
        opening = random.choice(_OPENINGS).format(x=things + place)
    opening += write_fact(profiles, things, random)
    return write_draft(opening.strip(), steps, random)


def choose_things(profile: Profile, random: Random) -> str:
    """Choose everyday data that suits the tool."""
    glossary = load_glossary()
    for entry, _ in profile.terms[:4]:
        settings = glossary.entries[entry].settings
        if settings and random.random() < 0.6:
            return random.choice(settings)
    return random.choice(THINGS)


def write_step(profile: Profile, things: str, explained: float, random: Random) -> str:
    """Write one step that needs the tool; a share of `explained` says what it is for."""
    told = [pair for pair in profile.told if pair[0].kind != "fact"]
    asked = profile.asked[: len(_ASKED_TERMS)]
    ask = None
    if asked:
        asks = random.choices(asked, _ASKED_TERMS[: len(asked)])[0]
        ask = read_ask(fill(random.choice(asks), things, random))
    if ask and (not told or random.random() < (1 - explained) * _ASKED):
        return say_step(ask, random)
    phrase = random.choices([p for p, _ in told], [w for _, w in told])[0]
    if profile.takes_data:
        phrase = say_plainly(phrase, things, random)
    step = say_step(phrase, random)
    if ask and random.random() < explained:
        purpose = random.choice(_PURPOSES[ask.kind])
        return f"{step}{'' if purpose[0] == ',' else ' '}{purpose} {ask.text}"
    if profile.choices and random.random() < _CHOSEN:
        step += f", where I can set {random.choice(profile.choices)}"
    return step


def _are_alike(first: str, second: str) -> bool:
    a, b = set(first.split()), set(second.split())
    return len(a & b) > 0.5 * min(len(a), len(b))


def write_fact(profiles: Sequence[Profile], things: str, random: Random) -> str:
    """Write a sentence to keep in mind from a fact of the reference; often ""."""
    facts = [
        (phrase, profile.takes_data)
        for profile in profiles
        for phrase, _ in profile.told
        if phrase.kind == "fact"
    ]
    if not facts or random.random() > _NOTED:
        return ""
    fact, takes_data = random.choice(facts)
    if takes_data:
        fact = say_plainly(fact, things, random)
    return f" {random.choice(_FACT_LEADS)} {fact.text}."


VERSION = 2
_LEAST_AFFINITY = 0.05


class _RulesWriter:
    """What both engines know of the tools."""

    name = "rules"
    offers: Offers | None = None

    def __init__(self, tools: Sequence[Tool], seed: int) -> None:
        self._seed = seed
        self._positions = {tool.name: n for n, tool in enumerate(tools)}
        self._profiles = Profiles(tools)

    async def close(self) -> None:
        """Do nothing, since nothing is open."""


class RulesEngine(_RulesWriter):
    """Write and polish requests in the words of the reference.

    A reply depends on the tools, the task, the attempt and the seed alone.
    """

    model = f"rules-{VERSION}"

    def __init__(
        self, tools: Sequence[Tool], config: GenerateConfig, seed: int
    ) -> None:
        super().__init__(tools, seed)
        self._affinity = Affinity(tools)
        if config.sampling in (None, "related") and config.candidate_sets is None:
            related = config.model_copy(update={"sampling": "related"})
            self.offers = make_offers(tools, related, seed, self._affinity)
        content = json.dumps(
            [VERSION, seed, [t.model_dump() for t in tools]], sort_keys=True
        )
        digest = hashlib.sha256(content.encode()).hexdigest()
        self.identity = f"{self.model}:{digest[:16]}"

    async def answer(self, request: ChatRequest) -> ChatReply:
        """Answer a write or polish request with JSON of its schema."""
        random = Random(f"{self._seed}:{request.step}:{request.attempt}")
        task = request.task
        if isinstance(task, WriteTask):
            reply = self._write(task, random)
        else:
            assert isinstance(task, PolishTask)
            reply = {
                "already_good": False,
                "reason": "steps merged",
                "query": merge_steps(task.draft, random),
            }
        return ChatReply(json.dumps(reply, ensure_ascii=False), self.model)

    def _write(self, task: WriteTask, random: Random) -> dict[str, object]:
        offered = [self._positions[tool.name] for tool in task.tools]
        chosen = self._choose(offered, task, random)
        reply = {
            "declined": True,
            "reason": "nothing offered belongs together",
            "tools": [],
            "explanation": "",
            "draft": "",
        }
        if len(chosen) < task.at_least or self._profiles[chosen[0]].is_silent:
            return reply
        return reply | {
            "declined": False,
            "reason": "",
            "tools": [task.tools[offered.index(n)].name for n in chosen],
            "explanation": self._explain(chosen),
            "draft": write_request([self._profiles[n] for n in chosen], random),
        }

    def _explain(self, chosen: list[int]) -> str:
        first, *others = chosen
        if not others:
            return "One tool serves it."
        reasons = sorted({self._affinity.reason(first, other) for other in others})
        return f"The tools go together: {', '.join(reasons)}."

    def _choose(self, offered: list[int], task: WriteTask, random: Random) -> list[int]:
        first, *others = offered
        rated = [
            (n, affinity)
            for n in others
            if (affinity := self._affinity.between(first, n)) > _LEAST_AFFINITY
            and not self._profiles[n].is_silent
        ]
        wanted = random.choices((2, 3, 4, 5), (60, 30, 8, 2))[0]
        chosen = [first]
        while rated and len(chosen) < max(task.at_least, min(wanted, task.at_most)):
            pick = random.choices(range(len(rated)), [w for _, w in rated])[0]
            chosen.append(rated.pop(pick)[0])
        return chosen


class RulesAskEngine(_RulesWriter):
    """Write plain and terse asks; none of another kind, and none for a tool without a reference.

    An ask depends on the tools, the tool, the key and the seed alone. A stored ask stays valid when
    other tools of the catalogue change.
    """

    model = f"rules-asks-{VERSION}"

    def __init__(self, tools: Sequence[Tool], seed: int) -> None:
        super().__init__(tools, seed)
        # The other inputs are in the prompt: the tool and its neighbours.
        self.identity = f"{self.model}:{seed}"

    async def answer(self, request: ChatRequest) -> ChatReply:
        """Write the asks of the request's tool."""
        task = request.task
        assert isinstance(task, AskTask)
        name = task.tool.name
        profile = self._profiles[self._positions[name]]
        answer = {
            key: _write_ask(kind, profile, Random(f"{self._seed}:ask:{name}:{key}"))
            for key, kind in task.kinds.items()
        }
        return ChatReply(json.dumps(answer, ensure_ascii=False), self.model)


def _write_ask(kind: str, profile: Profile, random: Random) -> str:
    if profile.is_silent:
        return ""
    if kind == "plain":
        return merge_steps(write_request([profile], random), random)
    phrases = [phrase for phrase, _ in profile.told if phrase.kind != "fact"]
    if kind != "terse" or not phrases:
        return ""
    # The first phrase in plain words is no sentence, as if typed in a hurry.
    phrase = phrases[0]
    if profile.takes_data:
        phrase = say_plainly(phrase, choose_things(profile, random), random)
    return phrase.text.rstrip(".")
