"""Finding the JSON object that a model answered with."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from typing import Any

MAX_REPLY_CHARACTERS = 100_000
# Models that think aloud close their thoughts with this tag, and may not show the opening one.
_THOUGHTS = re.compile(r"^.*</think(?:ing)?>", re.DOTALL)
_OBJECT_START = re.compile(r"\{(?=\s*[\"}])")
# Each costs up to the length of the text.
_MOST_FALSE_STARTS = 100


class AnswerError(Exception):
    """A reply that is not one JSON object; `reason` is a short name that becomes a count."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(detail)
        self.reason = reason


def find_answer(text: str, keys: Collection[str]) -> dict[str, Any]:
    """The one JSON object of a reply that has any of the keys, whatever stands around it.

    Raises:
        AnswerError: `not-json`, `wrong-schema` (no object has the keys), `several-objects`
            that differ, `repeated-key`, or `reply-too-long`. Nothing else is raised.
    """
    if len(text) > MAX_REPLY_CHARACTERS:
        raise AnswerError("reply-too-long", f"{len(text)} characters")
    found = list(_objects(_THOUGHTS.sub(" ", text)))
    # A stray {} or {"x": 1} in the prose is no answer.
    answers = [item for item in found if not item.keys().isdisjoint(keys)]
    if not answers:
        raise AnswerError("wrong-schema" if found else "not-json")
    if any(answer != answers[0] for answer in answers):
        raise AnswerError("several-objects", f"{len(answers)} objects")
    if any(isinstance(answer, _RepeatedKeys) for answer in answers):
        raise AnswerError("repeated-key")
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
