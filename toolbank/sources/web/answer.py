"""What a site, or the cache, answered."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urljoin, urlsplit

from w3lib.html import get_meta_refresh
from w3lib.url import safe_url_string

from toolbank.sources.web.decode import decode_html
from toolbank.sources.web.failures import RefusedError

MOVED = frozenset({301, 302, 303, 307, 308})
GONE = frozenset({404, 410})
_HEAD_BYTES = 4096


@dataclass(frozen=True)
class Answer:
    """An answer's unpacked body; names in `headers` are in lower case.

    It was "sent" just now; or is "cached" and holds still, or "stale", as the site could not be
    asked whether it does.
    """

    url: str
    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    origin: Literal["sent", "cached", "stale"] = "sent"

    @property
    def content_type(self) -> str:
        """What it is sent as, such as text/html; "" where it does not say."""
        return self._sent_as.partition(";")[0].strip().lower()

    @property
    def is_html(self) -> bool:
        """Whether it is sent as HTML; one that says nothing is taken for it."""
        return self.content_type in ("", "text/html", "application/xhtml+xml")

    @property
    def html(self) -> str:
        """The text of a page."""
        return decode_html(self.body, self._sent_as)

    @property
    def moved_to(self) -> str:
        """The address that it redirects to, or "".

        Raises:
            RefusedError: that is no address.
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
        """The address that a stub leads to: a page with nothing but a meta refresh; or ""."""
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
