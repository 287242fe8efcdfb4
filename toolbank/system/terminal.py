"""Print text for a terminal, and commands that users can paste."""

import os
import re
import shlex
import sys
import textwrap
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

# Control signs (but line feeds and tabs), and those that turn the direction of writing.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)
# Back to the start of the line, and nothing after it: there may be a progress line and a ^C.
_CLEAR = "\r\x1b[K"
_NARROWEST = 20
# Of a terminal that tells no width, as one that `script` makes without one around it.
_USUAL = 80
_COMMAND = re.compile(r" *(toolbank|mkdir|export) ")


def printable(text: str) -> str:
    """The text with a visible mark for every sign that could steer the terminal.

    Names and words of pages, packages and replies reach messages; they are data.
    """
    return _UNSEEN.sub("\N{REPLACEMENT CHARACTER}", text)


def one_line(text: str, longest: int) -> str:
    """The text as a part of a line: no line feed in it, and cut where it is longer than this.

    Names are data as well: one of ten thousand characters, or with a line feed, is shown so.
    """
    line = " ".join(printable(text).split())
    return line if len(line) <= longest else f"{line[: longest - 3]}..."


def align(
    rows: Sequence[Sequence[str]], right: Collection[int] = (), indent: int = 0
) -> list[str]:
    """Lay out a text table: one line per row, two spaces between columns.

    All rows have the same number of cells. Columns whose index is in `right` are right-aligned.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        " " * indent
        + "  ".join(
            cell.rjust(width) if index in right else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def print_above_bars(message: str) -> None:
    """Print a message to stderr while work goes on, above the progress bars."""
    from tqdm import tqdm

    tqdm.write(_lay_out(f"toolbank: {message}"), file=sys.stderr)


def print_amid_writes(message: str) -> None:
    """Print a message from a signal's handler, which may have come amid a write to stderr.

    Python's own streams refuse a write within another.
    """
    with suppress(OSError):
        os.write(2, f"{_lay_out(f'toolbank: {message}')}\n".encode(errors="replace"))


def print_message(message: str, indent: int = 0) -> None:
    """Print a message to stderr; its further lines are indented by so many columns."""
    print(_lay_out(message, indent), file=sys.stderr, flush=True)


def confirm(question: str) -> bool | None:
    """Ask on the terminal; None where there is none, and nothing is asked."""
    if not (sys.stdin and sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    print(f"{_lay_out(question)} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def wrap(text: str, width: int, indent: int = 0) -> str:
    """Break lines between words; a line that is a command stays whole, to be copied."""
    return "\n".join(
        line
        if _COMMAND.match(line)
        else textwrap.fill(
            line,
            width,
            subsequent_indent=" " * indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
        for line in text.split("\n")
    )


def _lay_out(message: str, indent: int = 0) -> str:
    """The message as it goes to stderr: set to the width of a terminal, as it is elsewhere."""
    visible = printable(message)
    if not sys.stderr.isatty():
        return visible
    columns = os.get_terminal_size(sys.stderr.fileno()).columns or _USUAL
    return _CLEAR + wrap(visible, max(columns - 1, 2 * indent, _NARROWEST), indent)


def command(name: str, folder: Path) -> str:
    """`toolbank NAME FOLDER`, as a shell takes it."""
    return f"toolbank {name} {shlex.quote(str(folder))}"


def advise_to_finish(run: Path) -> str:
    """What to type where something is not there yet that a run makes."""
    return f"To finish the run: {command('run', run)}"
