"""Which of the values that a server is given may be secrets."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

SHORTEST = 4
"""Signs of a secret that is hidden; where shorter ones were, little of a text would be left."""

_NAMES = re.compile(
    r"key|token|secret|(?<!ask)pass|pw|auth|cred|cookie|session|private|signature|licen[cs]e"
    r"|dsn|jwt|otp|salt|seed|pin(?![a-z])",
    re.IGNORECASE,
)
# Such as info, TRUE, Paris and 3000: in a text they mean something else.
_PLAIN = re.compile(r"[A-Z]?[a-z]{1,14}|[A-Z]{1,15}|\d{1,7}")
_RUNS = ("-y", "--yes", "-m", "run", "exec")
"""What stands before the name of what is run: npx -y NAME, python -m NAME."""
_PIECE = re.compile(r"[A-Za-z0-9_-]{16,}")
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+(?=@)|(?i:\b(?:bearer|basic) +\S+)")
_PASSWORD = re.compile(r"://[^/@:\s]*:([^/@\s]+)@")


def named_secret(name: str) -> bool:
    """Whether a variable, header, option or key of a query is called as secrets are."""
    return bool(_NAMES.search(name))


def is_secret(name: str, value: str) -> bool:
    """Whether a value that is given under a name, "" for none, is to be hidden.

    All are but plain words and short numbers whose name doesn't say so.
    """
    return named_secret(name) or not _PLAIN.fullmatch(value)


def find_passwords(value: str) -> list[str]:
    """The passwords of the addresses in a value: postgresql://USER:PASSWORD@HOST."""
    return _PASSWORD.findall(value)


def secret_arguments(command: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Options of a command and their values, "" before a value that stands alone.

    Paths, and what the program runs, are none.
    """
    for before, word in itertools.pairwise(command):
        name, sign, value = word.partition("=")
        if sign and not is_path(value):
            yield name, value
        if not (word.startswith("-") or is_path(word) or _is_run(before, command)):
            yield before if before.startswith("-") else "", word
        yield from (("", token) for token in _find_tokens(word))


def mask_arguments(command: Sequence[str]) -> Iterator[str]:
    """The program, options, paths, and what the program runs; of all else three stars."""
    yield from command[:1]
    for before, word in itertools.pairwise(command):
        if word.startswith("-"):
            option, sign, value = word.partition("=")
            is_shown = not sign or is_path(value)
            yield mask(word) if is_shown else f"{option}=***"
        elif is_path(word):
            yield word
        else:
            yield mask(word) if _is_run(before, command) else "***"


def mask(word: str) -> str:
    """A word without pieces that nobody writes by hand, and without credentials in it."""
    for token in _find_tokens(word):
        word = word.replace(token, "***")
    return _CREDENTIALS.sub("***", word)


def is_path(word: str) -> bool:
    """Whether there is such a file or folder on this machine."""
    try:
        return Path(word).exists()
    except (OSError, ValueError):
        return False


def _is_run(before: str, command: Sequence[str]) -> bool:
    """Whether what stands after a word is what the program runs."""
    return before in (command[0], *_RUNS)


def _find_tokens(word: str) -> list[str]:
    """The pieces of a word that nobody writes by hand: long, of letters and digits."""
    if is_path(word):
        return []
    return [
        piece
        for piece in _PIECE.findall(word)
        if any(map(str.isdigit, piece)) and any(map(str.isalpha, piece))
    ]
