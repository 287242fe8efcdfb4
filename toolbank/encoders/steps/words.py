"""Perturbations of the words of one step."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

from toolbank.encoders.steps.order import Steps

_AUXILIARY = r"is|are|was|were|am|will|would|can|could|should|must|may|might|shall|do|does|did|has|have|had"
_NEGATED = re.compile(rf"\b(?:{_AUXILIARY})( not)?\b(?!')", re.IGNORECASE)
# "May 5" is a month, and "may" is none.
_MONTH = re.compile(r"May( not)?")
_BASE = {
    **dict.fromkeys(("is", "are", "was", "were", "am", "been", "being"), "be"),
    **dict.fromkeys(("has", "had", "having"), "have"),
    **dict.fromkeys(("does", "did", "doing"), "do"),
}
_VERB = re.compile(rf"\b(?:{_AUXILIARY}|{'|'.join(_BASE)})\b", re.IGNORECASE)
_INFLECTED = re.compile(rf"\b(?:{'|'.join(_BASE)})\b", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]{2,}(?:['\u2019-][^\W\d_]+)*")


def negate(steps: Steps, random: Random, others: Steps) -> Steps | None:  # noqa: ARG001
    """With "not" behind an auxiliary of one step, or without the "not" that stands there.

    None where no step has an auxiliary: is, has, will, can, did, and the like.
    """
    return _change_one(steps, random, _negate)


def break_grammar(steps: Steps, random: Random, others: Steps) -> Steps | None:  # noqa: ARG001
    """With one step's grammar broken: two words swapped, a verb left out, or one uninflected.

    The verbs are auxiliaries. None where no step has one, nor two different words.
    """
    return _change_one(
        steps, random, random.choice((_swap_words, _drop_verb, _uninflect))
    ) or _change_one(steps, random, _swap_words)


def _change_one(
    steps: Steps, random: Random, change: Callable[[str, Random], str | None]
) -> Steps | None:
    """The chain with one of the steps changed that can be."""
    for place in random.sample(range(len(steps)), len(steps)):
        changed = change(steps[place], random)
        if changed is not None:
            return (*steps[:place], changed, *steps[place + 1 :])
    return None


def _negate(step: str, random: Random) -> str | None:
    found = [m for m in _NEGATED.finditer(step) if not _MONTH.fullmatch(m[0])]
    if not found:
        return None
    match = random.choice(found)
    if match[1]:
        return step[: match.start(1)] + step[match.end() :]
    return f"{step[: match.end()]} not{step[match.end() :]}"


def _swap_words(step: str, random: Random) -> str | None:
    words = list(_WORD.finditer(step))
    pairs = [
        (a, b)
        for i, a in enumerate(words)
        for b in words[i + 1 :]
        if a[0].lower() != b[0].lower()
    ]
    if not pairs:
        return None
    a, b = random.choice(pairs)
    return step[: a.start()] + b[0] + step[a.end() : b.start()] + a[0] + step[b.end() :]


def _drop_verb(step: str, random: Random) -> str | None:
    found = list(_VERB.finditer(step))
    if not found:
        return None
    match = random.choice(found)
    left = step[: match.start()] + step[match.end() :].removeprefix(" ")
    return left if left.strip() else None


def _uninflect(step: str, random: Random) -> str | None:
    found = list(_INFLECTED.finditer(step))
    if not found:
        return None
    match = random.choice(found)
    return step[: match.start()] + _BASE[match[0].lower()] + step[match.end() :]
