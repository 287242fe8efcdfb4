"""Responses of a site or the cache, and the errors of requests."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Self
from urllib.parse import urljoin, urlsplit

from w3lib.encoding import html_to_unicode
from w3lib.html import get_meta_refresh
from w3lib.url import safe_url_string

from toolbank.system.errors import InputError, ToolbankError
from toolbank.system.terminal import printable

# Encodings that decode most bytes, so pages often declare them by mistake.
_LOOSE = re.compile(r"utf-?8|us-ascii|ascii|iso-?8859-1|latin-?1|windows-1252|cp1252")
_CHARSET = re.compile(r"""charset\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE)
_HEAD_BYTES = 4096


def decode_html(body: bytes, content_type: str) -> str:
    """Decode a page as a browser does: byte order mark, header, meta element, or else UTF-8.

    A page that declares Latin-1 but is valid UTF-8 is read as UTF-8. Invalid bytes become U+FFFD,
    and unknown encodings are ignored.
    """
    declared = _CHARSET.search(content_type) or _CHARSET.search(
        body[:_HEAD_BYTES].decode("latin-1")
    )
    if declared is None or _LOOSE.fullmatch(declared[1].lower()):
        try:
            return body.decode("utf-8-sig")
        except UnicodeDecodeError:
            pass
    try:
        return html_to_unicode(content_type, body)[1]
    # Some codecs of Python return no text, or fail on some bytes.
    except (LookupError, ValueError):
        return body.decode("utf-8", errors="replace")


class RequestError(Exception):
    """A request failed; `str()` of it is the reason.

    `may_pass` says whether the same request may succeed later.
    """

    may_pass = False

    def __init__(self, reason: str) -> None:
        super().__init__(" ".join(printable(reason).split()))

    def led_to(self, url: str) -> Self:
        """Return the error of a page that another one redirected to."""
        place = " ".join(printable(url).split())
        reason = str(self)
        return self if place in reason else type(self)(f"{reason}, led to {place}")


class RefusedError(RequestError):
    """The crawler does not send the request, or does not read the response."""


class ForbiddenError(RefusedError):
    """The site's robots.txt forbids it."""


class EndlessError(RefusedError):
    """Redirects do not end."""


class NotAskedError(RequestError):
    """The crawl ended, or the site denied access, before the request."""

    may_pass = True


class UnansweredError(RequestError):
    """The site could not be reached, or did not respond."""

    may_pass = True


class BrokenOffError(RequestError):
    """A response ended too early."""

    may_pass = True


def may_pass_status(status: int) -> bool:
    """Whether a request with this status may succeed later."""
    return status >= 500 or status in (408, 425, 429)


def status_error(
    address: str, status: int, if_denied: str, otherwise: str
) -> ToolbankError:
    """Return the error of a response that is not a document; the last two are remedies."""
    said = f"{address}: the server answers with HTTP status {status}."
    if may_pass_status(status):
        return ToolbankError(f"{said} Try again later.")
    return InputError(f"{said} {if_denied if status in (401, 403) else otherwise}")


MOVED = frozenset({301, 302, 303, 307, 308})
GONE = frozenset({404, 410})


@dataclass(frozen=True)
class WebResponse:
    """A response with its unpacked body; names in `headers` are in lower case.

    Its origin is "sent" for a new response, "cached" for a valid one of the cache, and "stale" for
    one that could not be revalidated.
    """

    url: str
    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    origin: Literal["sent", "cached", "stale"] = "sent"

    @property
    def content_type(self) -> str:
        """The media type, such as text/html, or ""."""
        return self._sent_as.partition(";")[0].strip().lower()

    @property
    def is_html(self) -> bool:
        """Whether it is HTML, which is assumed if the media type is missing."""
        return self.content_type in ("", "text/html", "application/xhtml+xml")

    @property
    def html(self) -> str:
        """The text of a page."""
        return decode_html(self.body, self._sent_as)

    @property
    def moved_to(self) -> str:
        """The address that it redirects to, or "".

        Raises:
            RefusedError: the location is not an address.
        """
        if self.status not in MOVED or "location" not in self.headers:
            return ""
        try:
            location = safe_url_string(
                self.headers["location"].encode("utf-8", "surrogateescape")
            )
            target = urljoin(self.url, location)
            parts = urlsplit(target)
            _ = parts.port
        except ValueError as error:
            raise RefusedError("led to what is no address") from error
        return target if parts.scheme in ("http", "https") else ""

    @property
    def refreshes_to(self) -> str:
        """The address of a stub, a page with only a meta refresh, or ""."""
        head = self.body[:_HEAD_BYTES]
        if (
            self.status != 200
            or b"http-equiv" not in head.lower()
            or b"<dt" in self.body
            or not self.is_html
        ):
            return ""
        try:
            return get_meta_refresh(decode_html(head, self._sent_as), self.url)[1] or ""
        except ValueError:
            return ""

    @property
    def _sent_as(self) -> str:
        return self.headers.get("content-type", "")
