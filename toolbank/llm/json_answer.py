"""Reading what a model answered: whether it is whole, and the JSON object in it."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toolbank.system.terminal import one_line

if TYPE_CHECKING:
    from toolbank.chat.chat import ChatReply

MAX_REPLY_CHARACTERS = 100_000
# Models that think aloud close their thoughts with this tag, and may not show the opening one.
_THOUGHTS = re.compile(r"^.*</think(?:ing)?>", re.DOTALL)
_OBJECT_START = re.compile(r"\{(?=\s*[\"}])")
# Each costs up to the length of the text.
_MOST_FALSE_STARTS = 100
_EXCERPT = 100


@dataclass(frozen=True)
class Rejection:
    """Why something is not accepted: a short name that becomes a count, and the particulars."""

    reason: str
    detail: str = ""


def check_finish(reply: ChatReply) -> Rejection | None:
    """Why a reply is no whole answer: `cut-off`, `content-filter`, `too-large` or `empty`; or None."""
    details = {
        "cut-off": "cut at max_tokens; set a larger one, mostly so for models that think first",
        "content-filter": "the model or its filter refused to answer",
        "too-large": "over 4 MB came back; its beginning is kept, and `toolbank show` has it",
    }
    if reply.finish == "stop":
        return None
    return Rejection(reply.finish, details.get(reply.finish, ""))


def find_answer(text: str, keys: Collection[str]) -> dict[str, Any] | Rejection:
    """The one JSON object of a reply that has any of the keys, whatever stands around it.

    Rejected as `not-json`, `wrong-schema` (no object has the keys), `several-objects` that
    differ, `repeated-key`, or `reply-too-long`. Nothing that a reply can hold raises.
    """
    if len(text) > MAX_REPLY_CHARACTERS:
        said = f"{len(text)} characters, at most {MAX_REPLY_CHARACTERS}"
        return Rejection("reply-too-long", said)
    found = list(_objects(_THOUGHTS.sub(" ", text)))
    # A stray {} or {"x": 1} in the prose is no answer.
    answers = [item for item in found if not item.keys().isdisjoint(keys)]
    if not answers:
        reason = "wrong-schema" if found else "not-json"
        return Rejection(reason, one_line(text, _EXCERPT))
    if any(answer != answers[0] for answer in answers):
        return Rejection("several-objects", f"{len(answers)} objects")
    if any(isinstance(answer, _RepeatedKeys) for answer in answers):
        return Rejection("repeated-key")
    return answers[0]


class _RepeatedKeys(dict[str, Any]):
    """An object that gives one key twice, so that nobody can say what it means."""


def _pairs_to_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    return value if len(value) == len(pairs) else _RepeatedKeys(value)


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """All outermost JSON objects of a text. Raw line breaks in their strings are allowed."""
    decoder = json.JSONDecoder(strict=False, object_pairs_hook=_pairs_to_object)
    failures = 0
    brace = _OBJECT_START.search(text)
    while brace and failures < _MOST_FALSE_STARTS:
        try:
            value, end = decoder.raw_decode(text, brace.start())
        except (ValueError, RecursionError):
            end = brace.start() + 1
            failures += 1
        else:
            yield value
        brace = _OBJECT_START.search(text, end)
