"""What of a dataset or an API was left out, counted by reason."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from toolbank.system.numbers import count

_EXAMPLES = 5
_SHOWN = 3


@dataclass
class LeftOut:
    """How often something was left out for a reason, with a few examples of each."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: defaultdict[str, list[str]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def add(self, reason: str, example: str) -> None:
        """Count one more; the first few are kept as examples."""
        self.counts[reason] += 1
        if len(self.examples[reason]) < _EXAMPLES:
            self.examples[reason].append(example)

    def describe(self) -> dict[str, Any]:
        """As JSON, by reason: how often, and the examples."""
        return {
            reason: {"count": number, "examples": self.examples[reason]}
            for reason, number in sorted(self.counts.items())
        }

    def as_info(self) -> dict[str, Any]:
        """As the `info` of a source has it, by reason: `left_out` and `left_out_examples`."""
        return {
            "left_out": dict(sorted(self.counts.items())),
            "left_out_examples": {
                reason: sorted(self.examples[reason]) for reason in sorted(self.counts)
            },
        }

    def lines(self, label: str) -> Iterator[str]:
        """For each reason a line for people on how many tools, after a label."""
        for reason, number in sorted(self.counts.items()):
            names = ", ".join(self.examples[reason][:_SHOWN])
            yield f"{label}: left out, since {reason}: {count(number, 'tool')}, such as {names}"
