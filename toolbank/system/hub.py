"""Explain the errors of a model hub."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from toolbank.system.errors import InputError, ToolbankError

_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
_REMEDY = (
    "Set HF_TOKEN to a token that may do this. It is only sent to the hub, and never written to a "
    "file."
)


def check_repository(name: str) -> None:
    """Check the name of a repository.

    Raises:
        ValueError: it is not a valid name.
    """
    wrong = not _REPOSITORY.fullmatch(name) or "--" in name or ".." in name
    if wrong or len(name) > 96 or name.endswith((".git", ".", "-")):
        raise ValueError(
            f"{name!r} is not the name of a repository: give OWNER/NAME, such as me/weather-bank, with "
            "letters, digits, '-', '_' and '.'"
        )


@contextmanager
def explaining_hub_errors(repository: str) -> Iterator[str]:
    """Explain the hub's errors in the block, and hide its progress bars and notes.

    Gives the hub's address.

    Raises:
        InputError: there is no such repository or revision, or the token may not do this.
        ToolbankError: the hub can't be reached, or fails.
    """
    from huggingface_hub import constants
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    try:
        with _quiet():
            yield constants.ENDPOINT
    except ToolbankError:
        raise
    except HfHubHTTPError as error:
        raise _explain(repository, constants.ENDPOINT, error) from error
    except OfflineModeIsEnabled as error:
        raise InputError(
            f"{repository}: not on this machine, and HF_HUB_OFFLINE is set. Unset it."
        ) from error
    # The HTTP library and its exceptions change between versions of huggingface_hub.
    except Exception as error:
        if isinstance(cause := error.__cause__, HfHubHTTPError):
            raise _explain(repository, constants.ENDPOINT, cause) from error
        reason = cause or error
        raise ToolbankError(
            f"{repository}: the hub ({constants.ENDPOINT}) cannot be reached, or the connection broke "
            f"({type(reason).__name__}: {_first_line(reason)}). Run the same command again later."
        ) from error


def _explain(repository: str, endpoint: str, error: object) -> ToolbankError:
    from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError

    status = getattr(getattr(error, "response", None), "status_code", 0)
    said = getattr(error, "server_message", "") or _first_line(error)
    if isinstance(error, RevisionNotFoundError):
        return InputError(f"{repository}: {endpoint} has no such revision of it.")
    if status == 401:
        return InputError(
            f"{repository}: {endpoint} refuses the token, or requires one. {_REMEDY}"
        )
    if isinstance(error, RepositoryNotFoundError) or status == 404:
        return InputError(
            f"{repository}: {endpoint} has no such dataset, or the token may not see it. Check "
            f"the spelling. {_REMEDY}"
        )
    if status // 100 == 4 and status != 429:
        remedy = f" {_REMEDY}" if status == 403 else ""
        return InputError(
            f"{repository}: {endpoint} refuses it ({status}: {said}).{remedy}"
        )
    return ToolbankError(
        f"{repository}: {endpoint} fails ({status or 'no status'}: {said}). Run the same command "
        "again later."
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """Show progress bars only on a terminal, and no notes."""
    from huggingface_hub.utils.tqdm import (
        are_progress_bars_disabled,
        disable_progress_bars,
        enable_progress_bars,
    )

    logger = logging.getLogger("huggingface_hub")
    level, shown = logger.level, not are_progress_bars_disabled()
    logger.setLevel(logging.ERROR)
    if shown and not sys.stderr.isatty():
        disable_progress_bars()
    try:
        yield
    finally:
        logger.setLevel(level)
        if shown:
            enable_progress_bars()


def _first_line(error: object) -> str:
    return " ".join(str(error).split())[:300]
