"""Perturb chains of reasoning steps (ROSCOE, arXiv 2212.07919)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from random import Random
from types import MappingProxyType

Steps = tuple[str, ...]


def remove(steps: Steps, random: Random, others: Steps) -> Steps | None:  # noqa: ARG001
    """Without one of its steps; None where nothing would be left."""
    if len(steps) < 2:
        return None
    place = random.randrange(len(steps))
    return steps[:place] + steps[place + 1 :]


def duplicate(steps: Steps, random: Random, others: Steps) -> Steps | None:  # noqa: ARG001
    """With one of its steps twice in a row."""
    if not steps:
        return None
    place = random.randrange(len(steps))
    return steps[: place + 1] + steps[place:]


def swap(steps: Steps, random: Random, others: Steps) -> Steps | None:  # noqa: ARG001
    """With two different steps in each other's place; None where all are the same."""
    pairs = [
        (i, j)
        for j in range(len(steps))
        for i in range(j)
        if steps[i].strip() != steps[j].strip()
    ]
    if not pairs:
        return None
    i, j = random.choice(pairs)
    changed = list(steps)
    changed[i], changed[j] = steps[j], steps[i]
    return tuple(changed)


def shuffle(steps: Steps, random: Random, others: Steps) -> Steps | None:  # noqa: ARG001
    """In another order; None where all steps are the same."""
    return shuffle_until_other(steps, random)


def hallucinate(steps: Steps, random: Random, others: Steps) -> Steps | None:
    """With a step of `others`, those of another chain, somewhere in it.

    None where each of those is in the chain already.
    """
    foreign = [step for step in others if step not in steps]
    if not (steps and foreign):
        return None
    place = random.randrange(len(steps) + 1)
    return (*steps[:place], random.choice(foreign), *steps[place:])


def shuffle_until_other(items: Steps, random: Random) -> Steps | None:
    """The items in an order that reads otherwise; None where all are the same."""
    if len({item.strip() for item in items}) < 2:
        return None
    order = list(items)
    while [item.strip() for item in order] == [item.strip() for item in items]:
        random.shuffle(order)
    return tuple(order)


_NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")
# A sign between numbers or brackets, not a hyphen.
_OPERATION = re.compile(r"(?<=[\d)\]%])\s*([-+*/^\u00d7÷x])(?=\s*[$(\[]*\d)")
_SIGNS = ("+", "-", "*", "/")
_SAME = {"\u00d7": "*", "x": "*", "÷": "/"}
_HIGHEST = 100

Change = Callable[[Steps, Random], Steps | None]


def shuffle_numbers(steps: Steps, random: Random, others: Steps) -> Steps | None:  # noqa: ARG001
    """With the numbers of each step in another order; None where no step has two different."""
    return _change_all(steps, random, _NUMBER, shuffle_until_other)


def change_numbers(steps: Steps, random: Random, others: Steps) -> Steps | None:  # noqa: ARG001
    """With a number of each step replaced by one from 0 to 100; None where there is none."""
    numbers = tuple(str(number) for number in range(_HIGHEST + 1))
    return _change_all(steps, random, _NUMBER, _replace_one(numbers))


def shuffle_operations(steps: Steps, random: Random, others: Steps) -> Steps | None:  # noqa: ARG001
    """With the operations of each step in another order; None where no step has two different."""
    return _change_all(steps, random, _OPERATION, shuffle_until_other)


def change_operations(steps: Steps, random: Random, others: Steps) -> Steps | None:  # noqa: ARG001
    """With an operation of each step replaced by another; None where there is none."""
    return _change_all(steps, random, _OPERATION, _replace_one(_SIGNS))


def _replace_one(choices: Steps) -> Change:
    def replace(items: Steps, random: Random) -> Steps:
        place = random.randrange(len(items))
        old = _SAME.get(items[place], items[place])
        new = random.choice([one for one in choices if one != old])
        return (*items[:place], new, *items[place + 1 :])

    return replace


def _change_all(
    steps: Steps, random: Random, pattern: re.Pattern[str], change: Change
) -> Steps | None:
    """The chain with what the pattern finds in each step changed; None where nothing is."""
    changed = tuple(_change(step, random, pattern, change) for step in steps)
    return changed if changed != steps else None


def _change(step: str, random: Random, pattern: re.Pattern[str], change: Change) -> str:
    spans = [match.span(match.lastindex or 0) for match in pattern.finditer(step)]
    items = tuple(step[start:end] for start, end in spans)
    new = change(items, random) if items else None
    if new is None:
        return step
    parts, after = [], 0
    for (start, end), text in zip(spans, new, strict=True):
        parts += [step[after:start], text]
        after = end
    return "".join([*parts, step[after:]])


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


Perturbation = Callable[[Steps, Random, Steps], Steps | None]

PERTURBATIONS: Mapping[str, Perturbation] = MappingProxyType(
    {
        "remove": remove,
        "duplicate": duplicate,
        "swap": swap,
        "shuffle": shuffle,
        "negate": negate,
        "hallucinate": hallucinate,
        "grammar": break_grammar,
        "shuffle-numbers": shuffle_numbers,
        "change-numbers": change_numbers,
        "shuffle-operations": shuffle_operations,
        "change-operations": change_operations,
    }
)
"""Each takes a chain, a source of chance, and the steps of another chain.

It gives the chain with that one thing changed, or None where it can't be.
"""


def perturb(kind: str, steps: Steps, others: Steps, seed: str) -> Steps | None:
    """The chain perturbed in this way: the same for the same seed. None where it can't be."""
    return PERTURBATIONS[kind](steps, Random(f"{seed}:{kind}"), others)
