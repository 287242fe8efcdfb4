"""Whether tools that more training requests use are found more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from toolbank.evaluation.evaluate import Found
from toolbank.report.lines import LineChart, draw_lines, take_mean

_GROUPS = 5


def follow_uses(
    found: Mapping[str, Sequence[Found]], uses: Mapping[str, int], seed: int
) -> LineChart | None:
    """The share of needed tools that are found, by the training requests that use the tool.

    A line a method. `found` has what each found among its first k hits, for the same queries;
    `uses` counts by tool, and names that it lacks are left out. None where all tools are in one
    group.
    """
    needed = [
        uses[tool]
        for one in next(iter(found.values()), ())
        for tool in one.tools
        if tool in uses
    ]
    starts = cut_evenly(needed, _GROUPS)
    if len(starts) < 2:
        return None
    ends = [*starts[1:], max(needed) + 1]
    return draw_lines(
        [_name(*group) for group in zip(starts, ends, strict=True)],
        {
            method: [
                take_mean(
                    [
                        float(tool not in one.missed)
                        for one in of_one
                        for tool in one.tools
                        if start <= uses.get(tool, -1) < end
                    ],
                    seed,
                )
                for start, end in zip(starts, ends, strict=True)
            ]
            for method, of_one in found.items()
        },
    )


def cut_evenly(numbers: Sequence[int], groups: int) -> list[int]:
    """Where groups of about as many numbers each begin, at most so many; equal ones stay together."""
    starts: list[int] = []
    size, inside = len(numbers) / groups, 0
    for number, times in sorted(Counter(numbers).items()):
        if not starts or inside >= size:
            starts.append(number)
            inside = 0
        inside += times
    return starts


def _name(start: int, end: int) -> str:
    return str(start) if end == start + 1 else f"{start}\u2013{end - 1}"
