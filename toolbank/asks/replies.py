"""Reading the asks of a reply: each by itself, so that a bad one leaves the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from toolbank.asks.config import AsksConfig, fewest_words
from toolbank.generate.text_checks import TextChecker
from toolbank.llm.chat import ChatReply, Rejection, check_finish, find_answer
from toolbank.system.terminal import one_line
from toolbank.system.text import replace_surrogates

_EXCERPT = 100

Outcome = Literal["declined", "rejected", "failed"]


@dataclass(frozen=True)
class Lost:
    """Why there is no ask under a key: `declined`, `rejected` or `failed`, with the reason."""

    outcome: Outcome
    reason: str = ""
    detail: str = ""


@dataclass(frozen=True)
class Answered:
    """What the call for a group of siblings gave under each key: a text, or why there is none.

    `number` is the group's, `key` the call's in the journal.
    """

    number: int
    key: str
    model: str = ""
    asks: Mapping[str, str | Lost] = field(default_factory=dict)


def read_asks(
    reply: ChatReply, config: AsksConfig, checker: TextChecker
) -> dict[str, str | Lost]:
    """The asks of a reply under their keys, as far as they pass the checks.

    Where it can't be read at all, all are rejected as `check_finish` and `find_answer` say. One by
    itself is rejected as `missing`, as `wrong-schema` where it is no text, or as the checks say; an
    empty one is declined. Nothing that a reply can hold raises.
    """
    answer = check_finish(reply) or find_answer(reply.text, config.keys)
    if isinstance(answer, Rejection):
        lost = Lost("rejected", answer.reason, answer.detail)
        return dict.fromkeys(config.keys, lost)
    return {key: _read(answer, key, config, checker) for key in config.keys}


def _read(
    answer: Mapping[str, object], key: str, config: AsksConfig, checker: TextChecker
) -> str | Lost:
    if key not in answer:
        return Lost("rejected", "missing")
    said = answer[key]
    if not isinstance(said, str):
        return Lost("rejected", "wrong-schema", one_line(str(said), _EXCERPT))
    text = " ".join(said.split())
    if not text:
        return Lost("declined")
    least = fewest_words(config.keys[key])
    problem = checker.check(text, least, config.max_words)
    if problem is None:
        return text
    detail = replace_surrogates(problem.detail or one_line(text, _EXCERPT))
    return Lost("rejected", problem.reason, detail)
