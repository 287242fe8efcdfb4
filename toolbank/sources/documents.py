"""Read a document and the documents that it refers to, within common limits."""

from __future__ import annotations

import time
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

from toolbank.sources.document_parser import parse_document, shown
from toolbank.sources.web.answer import (
    RefusedError,
    RequestError,
    WebResponse,
    status_error,
)
from toolbank.sources.web.download import Downloader
from toolbank.sources.web.policy import CrawlPolicy, CrawlSettings
from toolbank.system.aio import run
from toolbank.system.errors import InputError, ToolbankError
from toolbank.system.files import reading
from toolbank.system.net import is_loopback, is_private, is_url, origin
from toolbank.system.terminal import printable

_MOST_FILES = 5_000
_MOST_MB = 256
_MAX_REDIRECTS = 5
_ACCEPT = "application/json, application/yaml, application/openapi+json, */*;q=0.8"


def _local_path(reference: str, said: str) -> str:
    """Find the path in a reference to a file.

    Raises:
        InputError: it is another kind of address.
    """
    try:
        parts = urlsplit(reference)
    except ValueError as error:
        raise InputError(f"{said}: is no address ({error}).") from error
    # One letter is a drive of Windows.
    if len(parts.scheme) > 1 and parts.scheme.lower() != "file":
        raise InputError(f"{said}: {parts.scheme}: is not a supported scheme.")
    return unquote(parts.path if parts.scheme.lower() == "file" else reference)


@dataclass(frozen=True)
class Document:
    """A parsed document; `address` is its name in messages, `place` its path or URL."""

    content: Any
    address: str
    place: str = field(repr=False)


class Documents:
    """Reads a document and the ones that it refers to.

    A file may refer to files in its own folder or below (or in `root`), a URL to URLs of the same
    origin. Other hosts have to be in `hosts`. A URL never leads to a file. Private addresses are
    refused, after the name is resolved and after every redirect, unless `private_addresses`; only
    a first document on this machine may refer to others of its origin. No redirect goes from https
    to http. Files, bytes and seconds are limited in sum.
    """

    def __init__(
        self,
        *,
        root: Path | None = None,
        hosts: tuple[str, ...] = (),
        private_addresses: bool = False,
        most_s: float = 300.0,
        most_mb: int = _MOST_MB,
    ) -> None:
        self._root = root
        self._hosts = frozenset(host.lower() for host in hosts)
        self._is_open = private_addresses
        self._origin: tuple[str, str, int | None] | None = None
        self._is_here = False
        self._read: dict[str, Document] = {}
        self._files = 0
        self._bytes = 0
        self._most_s = most_s
        self._most_mb = most_mb
        self._ends = time.monotonic() + most_s
        self.repeated: list[str] = []
        """File and pointer of each repeated key of an object; the last value counts."""

    def open(self, place: str) -> Document:
        """Read the first document from a path or an http or https URL.

        Raises:
            InputError: it can't be read, or is neither JSON nor YAML.
            ToolbankError: it can't be read now; trying again may help.
        """
        if not is_url(place):
            path = Path(place).expanduser()
            document = self._read_file(path, place)
            self._root = (self._root or path.parent).resolve()
            return document
        url, data = self.download(place)
        return self._keep(url, shown(url), data)

    def download(self, url: str) -> tuple[str, bytes]:
        """Download the first document; return its final URL and its bytes.

        Raises:
            InputError: it may not be read, or does not exist, such as with status 404.
            ToolbankError: it can't be read now; trying again may help.
        """
        self._is_here = is_loopback(url)
        self._origin = _origin(url)
        # After a redirect, references are relative to the new URL.
        led_to, data = self._fetch(url, is_first=True)
        self._is_here = self._is_here and is_loopback(led_to)
        self._origin = _origin(led_to)
        return led_to, data

    def follow(self, base: Document, reference: str) -> Document:
        """Read the target of a reference, given without its fragment, relative to `base`.

        Raises:
            InputError: it can't or may not be read.
            ToolbankError: it can't be read now; trying again may help.
        """
        target = shown(reference) if "//" in reference else printable(reference)
        said = f"{base.address}: $ref to {target[:200]}"
        if is_url(base.place) or is_url(reference):
            return self._follow_url(base, reference, said)
        found = Path(base.place).parent / _local_path(reference, said)
        try:
            resolved = found.resolve(strict=True)
        except (OSError, RuntimeError, ValueError) as error:
            raise InputError(f"{said}: there is no such file.") from error
        root = self._root or Path(base.place).parent.resolve()
        if not resolved.is_relative_to(root):
            raise InputError(
                f"{said}: is outside of {root}. To allow it, set `root:` to a folder that contains "
                "both."
            )
        return self._read.get(str(resolved)) or self._read_file(resolved, str(found))

    def _follow_url(self, base: Document, reference: str, said: str) -> Document:
        if reference.lower().startswith("file:"):
            raise InputError(f"{said}: a document from the web cannot refer to a file.")
        try:
            url = urljoin(base.place, reference) if is_url(base.place) else reference
            is_near = is_url(url) and self._may_reach(url)
        except ValueError:
            is_near = False
        if not is_near:
            raise InputError(
                f"{said}: is on another host than the document. To allow it, add the host to "
                "`hosts:`."
            )
        known = self._read.get(url)
        if known is not None:
            return known
        led_to, data = self._fetch(url)
        document = self._keep(led_to, shown(led_to), data)
        self._read[url] = document
        return document

    def _may_reach(self, url: str) -> bool:
        """Whether a document may refer there."""
        parts = urlsplit(url)
        host = (parts.hostname or "").lower()
        is_named = host in self._hosts or parts.netloc.lower() in self._hosts
        return is_named or (self._origin is not None and _origin(url) == self._origin)

    def _fetch(self, url: str, *, is_first: bool = False) -> tuple[str, bytes]:
        self._count(0, shown(url))
        visited = [url]
        try:
            while target := (answer := self._request(visited[-1])).moved_to:
                if target in visited or len(visited) > _MAX_REDIRECTS:
                    raise RefusedError("redirected in a loop, or too often")
                is_weaker = visited[-1].startswith("https:") and target[:5] == "http:"
                if is_weaker or not (is_first or self._may_reach(target)):
                    raise RefusedError(f"leads to another site, {shown(target)}")
                visited.append(target)
        except RequestError as error:
            message = f"{shown(url)}: cannot be read ({error})."
            kind = ToolbankError if error.may_pass else InputError
            raise kind(message) from error
        if answer.status != 200:
            login = "It may require a login: download the file, and give its path."
            raise status_error(shown(url), answer.status, login, "Check the address.")
        return visited[-1], answer.body

    def _request(self, url: str) -> WebResponse:
        try:
            parts = urlsplit(url)
        except ValueError as error:
            raise RefusedError("not a valid address") from error
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise RefusedError("the address does not begin with http:// or https://")
        if "@" in parts.netloc:
            raise RefusedError(
                "a user name or password in the address; give it without"
            )
        # A private address is allowed by the user, or of the origin of a first local document.
        is_own = self._is_here and _origin(url) == self._origin
        is_open = self._is_open or is_own
        if is_private(url) and not is_open:
            raise RefusedError(
                "at a private address; if that is meant, `private_addresses: true` lets it in"
            )
        left_s = max(self._ends - time.monotonic(), 0.1)
        policy = CrawlPolicy(request_s=left_s, private_addresses=is_open)
        most_bytes = self._most_mb * 1_000_000 - self._bytes
        return run(_send(url, policy, most_bytes))

    def _read_file(self, path: Path, said: str) -> Document:
        with reading(path):
            if path.is_dir():
                raise InputError(f"{said}: is a folder. Give a file in it.")
            if path.exists() and not path.is_file():
                raise InputError(f"{said}: is not a regular file.")
            self._count(path.stat().st_size, said)
            data = path.read_bytes()
        return self._keep(str(path.resolve()), said, data)

    def _keep(self, place: str, address: str, data: bytes) -> Document:
        self._bytes += len(data)
        content, repeated = parse_document(data, address)
        self.repeated += [f"{address}#{pointer}" for pointer in repeated]
        document = Document(content, address, place)
        self._read[place] = document
        self._files += 1
        return document

    def _count(self, size: int, said: str) -> None:
        """Check the limits before another document is read."""
        if self._files >= _MOST_FILES:
            what = f"over {_MOST_FILES:,} files"
        elif self._bytes + size > self._most_mb * 1_000_000:
            what = f"over {self._most_mb} MB"
        elif time.monotonic() > self._ends:
            what = f"over {self._most_s:.0f} seconds"
        else:
            return
        raise InputError(f"{said}: this source would read {what}, which is the limit.")


async def _send(url: str, policy: CrawlPolicy, most_bytes: int) -> WebResponse:
    settings = CrawlSettings(url, policy)
    settings.max_bytes = most_bytes
    async with aclosing(Downloader(settings)) as downloader:
        return (await downloader.send(url, {"Accept": _ACCEPT}))[0]


def _origin(url: str) -> tuple[str, str, int | None] | None:
    try:
        return origin(url)
    except ValueError:
        return None
