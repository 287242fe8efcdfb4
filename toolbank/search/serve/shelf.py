"""The finders that are served, each in its newest readable version, and the settings of a server."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from toolbank.search.format import read_version, version_folder
from toolbank.search.packed import PackedFinder, open_packed
from toolbank.system.errors import InputError, ToolbankError
from toolbank.system.folders import hash_files

_LOOKS = 2.0
"""Seconds between two looks for a newer version."""


class Shelf:
    """Packed finders under their names, the first of which serves where none is named."""

    def __init__(
        self,
        folders: Mapping[str, Path],
        pin: Sequence[str],
        tell: Callable[[str], None],
    ) -> None:
        """Open all of them.

        Raises:
            InputError: one can't be read, or none has a tool that is pinned.
        """
        self._folders, self._tell = dict(folders), tell
        self._finders = {name: _open(path) for name, path in folders.items()}
        self._refused: dict[str, tuple[str, dict[str, str]]] = {}
        self._pins = {
            name: [tool for tool in pin if tool in finder.tools.places]
            for name, finder in self._finders.items()
        }
        for name, finder in self._finders.items():
            finder.pin(self._pins[name])
        pinned = {tool for tools in self._pins.values() for tool in tools}
        for tool in pin:
            if tool not in pinned:
                raise InputError(f"{tool}: can't be pinned; no tool is called so.")
        self.on_renewal: Callable[[str, PackedFinder], None] = lambda *_: None
        self._asked = asyncio.Event()
        self.reloads = 0

    @property
    def names(self) -> tuple[str, ...]:
        """The names, the first one first."""
        return tuple(self._folders)

    def __getitem__(self, name: str) -> PackedFinder:
        return self._finders[name]

    def look_now(self) -> None:
        """Look for newer versions without waiting for the next time."""
        self._refused.clear()
        self._asked.set()

    async def watch(self) -> None:
        """Take newer versions, for ever; one that can't be read is told of, and left."""
        while True:
            for name, folder in self._folders.items():
                try:
                    await asyncio.to_thread(self._renew, name, folder)
                except Exception as error:  # such as no thread to be had
                    self._say(f"{name}: can't be looked at ({error}).")
            try:
                await asyncio.wait_for(self._asked.wait(), _LOOKS)
            except TimeoutError:
                continue
            self._asked.clear()

    def _renew(self, name: str, folder: Path) -> None:
        # Whatever is wrong with it, the old one has to go on, and the next be looked for.
        version, files = "", dict[str, str]()
        try:
            version = read_version(folder)
            if version == self._finders[name].version:
                return
            # One that is still being copied is another at the next look.
            files = hash_files(version_folder(folder, version))
            if self._refused.get(name) == (version, files):
                return
            finder = _open(folder)
            finder.pin(self._pins[name])
            self.on_renewal(name, finder)
        except Exception as error:
            self._refuse(name, (version, files), _explain(folder, error))
            return
        self._finders[name] = finder
        self._refused.pop(name, None)
        self.reloads += 1
        self._say(
            f"{name}: now version {finder.version}, {len(finder.tools):,} tools; "
            f"{self.explain_scores(name)}"
        )

    def explain_scores(self, name: str) -> str:
        """What the scores of a finder's default retriever are, for people."""
        finder = self._finders[name]
        return finder.explain_scores(next(iter(finder.retrievers)))

    def _refuse(self, name: str, what: tuple[str, dict[str, str]], why: str) -> None:
        before, _ = self._refused.get(name, (None, None))
        self._refused[name] = what
        if before != what[0]:
            now = self._finders[name].version
            self._say(f"{name}: {why} Version {now} goes on.")

    def _say(self, message: str) -> None:
        # The terminal may be gone; the server has to go on.
        with suppress(OSError, ValueError):
            self._tell(message)


def _open(folder: Path) -> PackedFinder:
    finder = open_packed(folder)
    for label in finder.retrievers:
        # The first search of a network is slow.
        finder.search("warm up", 1, label)
    return finder


def _explain(folder: Path, error: Exception) -> str:
    if isinstance(error, ToolbankError):
        return str(error)
    return f"{folder}: can't be opened ({type(error).__name__}: {error})."


def name_folders(given: Sequence[str]) -> dict[str, Path]:
    """The folders of `[NAME=]DIR` by their names; unset, a name is that of the folder.

    Raises:
        InputError: two have one name, or one can't stand in an address.
    """
    found: dict[str, Path] = {}
    for text in given:
        name, equals, path = text.partition("=")
        if equals and not path:
            raise InputError(f"{text}: the folder is missing. Give NAME=DIR.")
        folder = Path(path if equals else text)
        if not equals:
            name = folder.resolve().name
        if name in RESERVED or not name or not _is_plain(name):
            raise InputError(
                f"{text}: {name!r} can't be the name of a finder: letters, digits, -, _ and . "
                "only, and no route of the server. Give another: NAME=DIR."
            )
        if name in found:
            raise InputError(
                f"{text}: there is a finder {name!r} already. Give NAME=DIR."
            )
        found[name] = folder
    return found


RESERVED = frozenset(
    [
        "search",
        "tools",
        "healthz",
        "metrics",
        "openapi.json",
        "facets",
        "nearest",
        "feedback",
        "mcp",
        "page.js",
        "page.css",
    ]
)


def _is_plain(name: str) -> bool:
    return (
        all(c.isascii() and (c.isalnum() or c in "-_.") for c in name)
        and name[0] != "."
    )


KEY_VARIABLE = "TOOLBANK_API_KEY"

MOST_BODY = 1_000_000
"""Bytes of a body."""
MOST_QUERY = 10_000
"""Characters of a request."""
MOST_QUERIES = 256
MOST_HITS = 1_000
MOST_ANSWERED = 5_000
"""Hits that the requests of a batch may have together."""
MOST_CALLS = 16
"""Calls that are passed on at once."""
MOST_WAITING = 512
"""Searches that wait for their turn."""
SEARCH_TIME = 30.0
"""Seconds from when a search came until it is given up."""
BODY_TIME = 10.0
"""Seconds in which a whole body, or the head of a first request, has to come."""
STOP_TIME = 30
"""Seconds that searches in flight have when the server is stopped."""


@dataclass(frozen=True)
class Access:
    """Who may ask: with which key ("" for none), and by which names of the server."""

    host: str
    key: str = ""
    names: frozenset[str] = frozenset()

    def knows(self, name: str) -> bool:
        """Whether it may be reached by a name, as the header Host has it without the port.

        An address in digits can't be turned to another by who owns a domain (DNS rebinding);
        names are those given, and localhost.
        """
        name = name.strip("[]").casefold()
        return name in self.names or name == "localhost" or _is_address(name)


def make_access(host: str, key: str, names: list[str], *, without_key: bool) -> Access:
    """Who may ask a server at an address.

    Raises:
        InputError: it would be open to others without a key, or no client can send the key.
    """
    given, key = ("", "") if without_key else (key, key.strip())
    if given and not (key and key.isascii() and key.isprintable()):
        raise InputError(
            f"{KEY_VARIABLE}: no client can send this key. Make it of ASCII's letters, digits "
            "and signs."
        )
    if not key and not without_key and not is_loopback(host):
        raise InputError(
            f"--host {host}: others can reach it, so a key is needed. Set {KEY_VARIABLE}, "
            "or give --no-key to let anybody in."
        )
    known = frozenset(name.casefold() for name in (*names, host))
    return Access(host, key, known)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    if host == "localhost":
        return True
    return _is_address(host) and ipaddress.ip_address(host).is_loopback


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
