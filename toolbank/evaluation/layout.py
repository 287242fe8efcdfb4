"""Tables of plain text that no terminal breaks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from toolbank.system.terminal import one_line

WIDTH = 90
LONGEST_SET = 40
_LONGEST_LABEL = 30


@dataclass(frozen=True)
class Columns:
    """Columns that stay together: headers with a cell a row each, under a title if it isn't ""."""

    headers: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    title: str = ""

    def lines(self) -> list[str]:
        """Title, headers and rows, all of one width."""
        rows = [self.headers, *self.cells]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        whole = sum(widths) + 2 * (len(widths) - 1)
        return [one_line(self.title, max(whole, 20)).ljust(whole)] + [
            "  ".join(
                cell.rjust(width) for cell, width in zip(row, widths, strict=True)
            )
            for row in rows
        ]


def lay_out(
    labels: Sequence[str], groups: Iterable[Columns], what: str = "retriever"
) -> str:
    """Rows under their columns; what is too wide for a line goes on in a block of its own.

    `what` is what the labels are.
    """
    names = [one_line(label, _LONGEST_LABEL) for label in labels]
    margin = max(map(len, (what, *names)))
    return "\n\n".join(
        _join((what, *names), margin, block)
        for block in _pack(groups, WIDTH - 2 - margin)
    )


def _pack(groups: Iterable[Columns], width: int) -> Iterator[list[list[str]]]:
    """The lines of as many groups as stand beside each other, and then of the next."""
    block: list[list[str]] = []
    for group in groups:
        lines = group.lines()
        if block and sum(len(one[-1]) + 2 for one in (*block, lines)) > width:
            yield block
            block = []
        block.append(lines)
    if block:
        yield block


def _join(names: Sequence[str], margin: int, block: Sequence[list[str]]) -> str:
    rows = zip(("", *names), *block, strict=True)
    lines = ["  ".join((f"  {name:<{margin}}", *parts)) for name, *parts in rows]
    return "\n".join(line.rstrip() for line in lines if line.strip())
