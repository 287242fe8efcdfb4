"""Download one document; every address on the way is checked."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from urllib.parse import urlsplit, urlunsplit

from toolbank.sources.web.answer import (
    RefusedError,
    RequestError,
    WebResponse,
    may_pass_status,
)
from toolbank.sources.web.download import Downloader
from toolbank.sources.web.policy import CrawlPolicy, crawl_settings
from toolbank.system.aio import run
from toolbank.system.errors import InputError, ToolbankError
from toolbank.system.net import is_private
from toolbank.system.terminal import printable

_MAX_REDIRECTS = 5
_ACCEPT = "application/json, application/yaml, application/openapi+json, */*;q=0.8"


def fetch(
    url: str,
    *,
    most_bytes: int,
    most_s: float,
    may_lead_to: Callable[[str], bool],
    is_let_in: Callable[[str], bool],
) -> tuple[str, bytes]:
    """Download a URL; return the final URL and the bytes.

    `may_lead_to` decides about redirects; none goes from https to http. `is_let_in` decides about
    private addresses, which are checked again for the address that is connected to.

    Raises:
        InputError: it may not be read, or does not exist, such as with status 404.
        ToolbankError: it can't be read now; trying again may help.
    """
    ends = time.monotonic() + most_s
    visited = [url]
    try:
        while True:
            _check(visited[-1], is_let_in)
            left_s = max(ends - time.monotonic(), 0.1)
            answer = run(_ask(visited[-1], most_bytes, left_s, is_let_in(visited[-1])))
            target = answer.moved_to
            if not target:
                break
            if target in visited or len(visited) > _MAX_REDIRECTS:
                raise RefusedError("redirected in a loop, or too often")
            is_weaker = visited[-1].startswith("https:") and target.startswith("http:")
            if is_weaker or not may_lead_to(target):
                raise RefusedError(f"leads to another site, {shown(target)}")
            visited.append(target)
    except RequestError as error:
        message = f"{shown(url)}: cannot be read ({error})."
        if error.may_pass:
            raise ToolbankError(message) from error
        raise InputError(message) from error
    if answer.status != 200:
        message = f"{shown(url)}: the server answers with HTTP status {answer.status}."
        if may_pass_status(answer.status):
            raise ToolbankError(f"{message} Try again later.")
        if answer.status in (401, 403):
            raise InputError(
                f"{message} It may require a login: download the file, and give its path."
            )
        raise InputError(f"{message} Check the address.")
    return visited[-1], answer.body


def shown(url: str) -> str:
    """Write a URL for messages, without user name, password and query: they may be secrets."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        query = "..." if parts.query else ""
        return printable(urlunsplit((parts.scheme, host, parts.path, query, "")))
    except ValueError:
        return "an invalid address"


async def _ask(url: str, most_bytes: int, most_s: float, is_open: bool) -> WebResponse:
    settings = replace(
        crawl_settings(url, CrawlPolicy(request_s=most_s, private_addresses=is_open)),
        max_bytes=most_bytes,
    )
    downloader = Downloader(settings)
    try:
        answer, _ = await downloader.send(url, {"Accept": _ACCEPT})
    finally:
        await downloader.aclose()
    return answer


def _check(url: str, is_let_in: Callable[[str], bool]) -> None:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise RefusedError("the address does not begin with http:// or https://")
    if "@" in parts.netloc:
        raise RefusedError("a user name or password in the address; give it without")
    if is_private(url) and not is_let_in(url):
        raise RefusedError(
            "at a private address; if that is meant, `private_addresses: true` lets it in"
        )
