"""Perturbations of the numbers and operations of a chain, in every step that has them."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

from toolbank.encoders.steps.order import Steps, shuffle_until_other

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
