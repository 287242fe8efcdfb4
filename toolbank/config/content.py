"""What a reader of another's content did not foresee."""

from collections.abc import Iterator
from contextlib import contextmanager

from pydantic import ValidationError

from toolbank.config.explain import first_problem
from toolbank.system.errors import InputError, ToolbankError
from toolbank.system.extras import telling_extras


@contextmanager
def reading_content(name: str, kind: str) -> Iterator[None]:
    """Have what a reader did not foresee in its content be told as such.

    Raises:
        InputError: in place of any exception that is neither a ToolbankError nor the system's.
    """
    try:
        with telling_extras():
            yield
    except (ToolbankError, OSError):
        raise
    except Exception as error:
        said = first_problem(error) if isinstance(error, ValidationError) else error
        raise InputError(
            f"{name} can't be read ({type(error).__name__}: {said}). "
            f"Is it what {kind} reads?"
        ) from error
