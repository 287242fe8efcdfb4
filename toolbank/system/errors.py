"""What can go wrong, in words for people."""

from collections.abc import Iterator
from contextlib import contextmanager


class ToolbankError(Exception):
    """A run failed. The message says what, where, and what to do. Exit code 1."""

    exit_code = 1


class InputError(ToolbankError):
    """Something that the user gave (recipe, file, option, site) can't be used. Exit code 2."""

    exit_code = 2


class Interrupted(ToolbankError):  # noqa: N818 - it did what was asked
    """Ctrl-C or SIGTERM has ended it. The message says what is kept. Exit code 1."""


@contextmanager
def reading_content(name: str, kind: str) -> Iterator[None]:
    """Have what a reader did not foresee in its content be told as such.

    Raises:
        InputError: in place of any exception that is not of this module or the system's.
    """
    try:
        yield
    except (ToolbankError, OSError):
        raise
    except Exception as error:
        raise InputError(
            f"{name} can't be read ({type(error).__name__}: {error}). "
            f"Is it what {kind} reads?"
        ) from error
