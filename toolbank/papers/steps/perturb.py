"""Perturb chains of reasoning steps (ROSCOE, arXiv 2212.07919)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from random import Random

Steps = tuple[str, ...]
Perturbation = Callable[[Steps, Random, Steps], Steps | None]


def remove(steps: Steps, random: Random, others: Steps) -> Steps | None:  # noqa: ARG001
    """Remove a step; None if nothing would be left."""
    if len(steps) < 2:
        return None
    place = random.randrange(len(steps))
    return steps[:place] + steps[place + 1 :]


def duplicate(steps: Steps, random: Random, others: Steps) -> Steps | None:  # noqa: ARG001
    """Repeat a step."""
    if not steps:
        return None
    place = random.randrange(len(steps))
    return steps[: place + 1] + steps[place:]


def swap(steps: Steps, random: Random, others: Steps) -> Steps | None:  # noqa: ARG001
    """Swap two different steps; None if all are the same."""
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


def hallucinate(steps: Steps, random: Random, others: Steps) -> Steps | None:
    """Insert a step of `others`, another chain; None if the chain has all of those."""
    foreign = [step for step in others if step not in steps]
    if not (steps and foreign):
        return None
    place = random.randrange(len(steps) + 1)
    return (*steps[:place], random.choice(foreign), *steps[place:])


def shuffle_until_other(items: Steps, random: Random) -> Steps | None:
    """Shuffle items until they read differently; None if all are the same."""
    if len({item.strip() for item in items}) < 2:
        return None
    order = list(items)
    while [item.strip() for item in order] == [item.strip() for item in items]:
        random.shuffle(order)
    return tuple(order)


_NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")
# An operator between numbers or brackets, not a hyphen.
_OPERATION = re.compile(r"(?<=[\d)\]%])\s*([-+*/^\u00d7÷x])(?=\s*[$(\[]*\d)")
_SIGNS = ("+", "-", "*", "/")
_SAME = {"\u00d7": "*", "x": "*", "÷": "/"}
_NUMBERS = tuple(str(number) for number in range(101))

Change = Callable[[Steps, Random], Steps | None]


def _replace_one(choices: Steps) -> Change:
    def replace(items: Steps, random: Random) -> Steps:
        place = random.randrange(len(items))
        old = _SAME.get(items[place], items[place])
        new = random.choice([one for one in choices if one != old])
        return (*items[:place], new, *items[place + 1 :])

    return replace


def _change_each(pattern: re.Pattern[str], change: Change) -> Perturbation:
    """Perturb by changing the matches of the pattern in each step; None if nothing changes."""

    def perturb(steps: Steps, random: Random, others: Steps) -> Steps | None:  # noqa: ARG001
        changed = tuple(_change(step, random, pattern, change) for step in steps)
        return changed if changed != steps else None

    return perturb


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
# The month, unlike "may".
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
    """Add "not" after an auxiliary (is, has, will, ...) of a step, or remove the one there.

    None if no step has an auxiliary.
    """
    return _change_one(steps, random, _negate)


def break_grammar(steps: Steps, random: Random, others: Steps) -> Steps | None:  # noqa: ARG001
    """Break the grammar of a step: swap two words, or remove or uninflect an auxiliary.

    None if no step has an auxiliary or two different words.
    """
    return _change_one(
        steps, random, random.choice((_swap_words, _drop_verb, _uninflect))
    ) or _change_one(steps, random, _swap_words)


def _change_one(
    steps: Steps, random: Random, change: Callable[[str, Random], str | None]
) -> Steps | None:
    """Change one of the steps that can be changed."""
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


PERTURBATIONS: Mapping[str, Perturbation] = {
    "remove": remove,
    "duplicate": duplicate,
    "swap": swap,
    "shuffle": lambda steps, random, _: shuffle_until_other(steps, random),
    "negate": negate,
    "hallucinate": hallucinate,
    "grammar": break_grammar,
    "shuffle-numbers": _change_each(_NUMBER, shuffle_until_other),
    "change-numbers": _change_each(_NUMBER, _replace_one(_NUMBERS)),
    "shuffle-operations": _change_each(_OPERATION, shuffle_until_other),
    "change-operations": _change_each(_OPERATION, _replace_one(_SIGNS)),
}
"""Each takes a chain, a random generator, and another chain.

It returns the chain with one change, or None if that is impossible.
"""


def perturb(kind: str, steps: Steps, others: Steps, seed: str) -> Steps | None:
    """Perturb a chain, with the same result for the same seed; None if that is impossible."""
    return PERTURBATIONS[kind](steps, Random(f"{seed}:{kind}"), others)
