"""Print text for a terminal, and commands that users can paste."""

import os
import re
import shlex
import sys
import textwrap
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

# Control characters (except line feeds and tabs), and those that change the writing direction.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)
# Clears the line: there may be a progress bar and a ^C.
_CLEAR = "\r\x1b[K"
_NARROWEST = 20
# The width if the terminal reports none, such as under `script`.
_DEFAULT_WIDTH = 80
_COMMAND = re.compile(r" *(toolbank|mkdir|export) ")


def printable(text: str) -> str:
    """Replace each character that could control the terminal with a visible mark.

    Messages contain text of web pages, packages and replies.
    """
    return _UNSEEN.sub("\N{REPLACEMENT CHARACTER}", text)


def one_line(text: str, longest: int) -> str:
    """Make the text printable on one line, cut to at most `longest` characters."""
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
    """Print a message to stderr above the progress bars."""
    from tqdm import tqdm

    tqdm.write(_lay_out(f"toolbank: {message}"), file=sys.stderr)


def print_amid_writes(message: str) -> None:
    """Print a message from a signal handler, even during a write to stderr.

    Python's own streams refuse a write within another.
    """
    with suppress(OSError):
        os.write(2, f"{_lay_out(f'toolbank: {message}')}\n".encode(errors="replace"))


def print_message(message: str, indent: int = 0) -> None:
    """Print a message to stderr; `indent` is that of its further lines."""
    print(_lay_out(message, indent), file=sys.stderr, flush=True)


def confirm(question: str) -> bool | None:
    """Ask the user on the terminal; None if there is no terminal."""
    if not (sys.stdin and sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    _drop_typed_ahead()
    print(f"{_lay_out(question)} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _drop_typed_ahead() -> None:
    """Drop what was typed before the question was shown, which is no answer to it."""
    try:
        import termios
    except ImportError:  # Windows
        return
    with suppress(termios.error, OSError, ValueError):
        termios.tcflush(sys.stdin, termios.TCIFLUSH)


def wrap(text: str, width: int, indent: int = 0) -> str:
    """Wrap lines between words; a command stays on one line, so that it can be copied."""
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
    """Wrap a message to the width of the terminal, if stderr is one."""
    visible = printable(message)
    if not sys.stderr.isatty():
        return visible
    columns = os.get_terminal_size(sys.stderr.fileno()).columns or _DEFAULT_WIDTH
    return _CLEAR + wrap(visible, max(columns - 1, 2 * indent, _NARROWEST), indent)


def command(name: str, folder: Path) -> str:
    """Write the command `toolbank NAME FOLDER` for a shell."""
    return f"toolbank {name} {shlex.quote(str(folder))}"


def advise_to_finish(run: Path) -> str:
    """Say how to finish a run."""
    return f"To finish the run: {command('run', run)}"
