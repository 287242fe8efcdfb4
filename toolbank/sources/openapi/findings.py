"""What is found wrong with a description, counted and told once a kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice

from toolbank.bank.bank import LeftOut

_EXAMPLES = 3
_LONGEST = 600
_MOST_LINES = 50


@dataclass
class Findings:
    """Lines for people, gathered by what they say.

    `problems` go by what could not be read, `notes` by what is otherwise unusual, each with the
    places (file and pointer) that it is so of. `left_out` are the operations that became no tool,
    by reason.
    """

    problems: dict[str, list[str]] = field(default_factory=dict)
    notes: dict[str, list[str]] = field(default_factory=dict)
    left_out: LeftOut = field(default_factory=LeftOut)

    def problem(self, what: str, place: str) -> None:
        """Something could not be read there."""
        self.problems.setdefault(what, []).append(place)

    def note(self, what: str, place: str) -> None:
        """Something there is not as it should be, and was read all the same."""
        self.notes.setdefault(what, []).append(place)


def describe(label: str, found: Mapping[str, list[str]]) -> tuple[str, ...]:
    """A line for each thing that was found, the first fifty: how often, and where first."""
    lines = [_line(label, *one) for one in islice(found.items(), _MOST_LINES)]
    if len(found) > _MOST_LINES:
        lines.append(f"{label}: {len(found) - _MOST_LINES:,} more that are not shown")
    return tuple(lines)


def _line(label: str, what: str, places: list[str]) -> str:
    different = list(Counter(places))
    shown = ", ".join(different[:_EXAMPLES])
    times = f" ({len(places):,} times), first" if len(places) > 1 else ""
    line = f"{label}: {what}{times} at {shown}"
    return "".join(s if s.isprintable() else "?" for s in line)[:_LONGEST]
