"""One MCP server: how it is reached, and what of that is secret."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from toolbank.system.secrets import hide
from toolbank.system.trust import Grant

_RUNS = ("-y", "--yes", "-m", "run", "exec")
"""What stands before the name of what is run: npx -y NAME, python -m NAME."""
_PIECE = re.compile(r"[A-Za-z0-9_-]{16,}")


@dataclass(frozen=True)
class Server:
    """A server that is started by `command`, or asked at `url`.

    `name` is "" where only the server itself can tell. `environment` is what a command sees
    besides what programs need to run at all; `set_here` names those of it that a file sets, and
    `folder` is where the file has it start. `grants` are the variables of this environment whose
    values are sent to the URL. `is_open`: where it stands in a recipe, which has no secrets.
    """

    name: str
    command: tuple[str, ...] = field(default=(), repr=False)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    set_here: tuple[str, ...] = ()
    folder: str = ""
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    uses_sse: bool = False
    grants: tuple[Grant, ...] = ()
    is_open: bool = False

    @property
    def line(self) -> str:
        """The whole command, as a shell would take it; what a file sets is shown by its name.

        The arguments are shown as they are, even where one is a secret: who is asked whether it
        may be started has to see what is.
        """
        words = [*(f"{name}=..." for name in self.set_here), *self.command]
        place = f"cd {shlex.quote(self.folder)} && " if self.folder else ""
        return place + shlex.join(words)

    @property
    def masked_line(self) -> str:
        """The command for where others may read it: without arguments that may be secrets."""
        if self.is_open:
            return self.line
        words = tuple(_mask_arguments(self.command))
        return Server(self.name, words, {}, self.set_here, self.folder).line

    def hide(self, text: str) -> str:
        """The text without anything secret of this server."""
        return hide(text, tuple(dict.fromkeys(self._secrets())))

    def _secrets(self) -> Iterator[str]:
        yield from self.environment.values()
        for value in self.headers.values():
            yield value
            yield value.rpartition(" ")[2]
        if self.is_open:
            return
        for word in self.command[1:]:
            value = word.partition("=")[2] if word.startswith("-") else word
            if value and not _is_path(value):
                yield value
            yield from _find_tokens(word)
        if self.url:
            parts = urlsplit(self.url)
            yield from (value for _, value in parse_qsl(parts.query))
            yield from filter(None, (parts.password, parts.username, parts.query))
            yield from parts.path.split("/")


def _mask_arguments(command: Sequence[str]) -> Iterator[str]:
    """The program, options, paths, and what the program runs; of all else three stars."""
    program = command[:1]
    yield from program
    for before, word in itertools.pairwise(command):
        if word.startswith("-"):
            option, sign, value = word.partition("=")
            is_shown = not sign or _is_path(value)
            yield _mask(word) if is_shown else f"{option}=***"
        elif _is_path(word):
            yield word
        else:
            yield _mask(word) if before in (*program, *_RUNS) else "***"


def _mask(word: str) -> str:
    for token in _find_tokens(word):
        word = word.replace(token, "***")
    return word


def _find_tokens(word: str) -> list[str]:
    """The pieces of a word that nobody writes by hand: long, of letters and digits."""
    if _is_path(word):
        return []
    return [
        piece
        for piece in _PIECE.findall(word)
        if any(map(str.isdigit, piece)) and any(map(str.isalpha, piece))
    ]


def _is_path(word: str) -> bool:
    try:
        return Path(word).exists()
    except (OSError, ValueError):
        return False
