"""Pages on disk: whole or not there, headers as JSON, nothing pickled."""
# ruff: noqa: ARG002 - Scrapy calls these methods with arguments that not all of them need

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

from scrapy import Request, Spider
from scrapy.http import Headers, Response
from scrapy.responsetypes import responsetypes
from scrapy.settings import BaseSettings
from scrapy.utils.httpobj import urlparse_cached

from toolbank.files import atomic_path


class AtomicCacheStorage:
    """Scrapy's HTTP cache, one file a response: a line of JSON, then the body as it was sent.

    A file that is damaged counts as missing. Entries do not age: delete the folder
    (`HTTPCACHE_DIR`) to read a site afresh.
    """

    def __init__(self, settings: BaseSettings) -> None:
        self.folder = Path(settings["HTTPCACHE_DIR"])

    def open_spider(self, spider: Spider) -> None:
        """Nothing to open: every response is a file of its own."""

    def close_spider(self, spider: Spider) -> None:
        """Nothing to close."""

    def retrieve_response(self, spider: Spider, request: Request) -> Response | None:
        """The response kept for a request, or None."""
        try:
            head, _, body = self._path(request).read_bytes().partition(b"\n")
            kept: dict[str, Any] = json.loads(head)
            if kept["url"] != request.url or kept["length"] != len(body):
                return None
            headers = Headers()
            for name, value in kept["headers"]:
                headers.appendlist(name, base64.b64decode(value))
            status = int(kept["status"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        response_class = responsetypes.from_args(
            headers=headers, url=request.url, body=body
        )
        return response_class(
            url=request.url, status=status, headers=headers, body=body
        )

    def store_response(
        self, spider: Spider, request: Request, response: Response
    ) -> None:
        """Keep a response.

        Raises:
            ToolbankError: the folder can't be written to, or the disk is full.
        """
        head = {
            "url": request.url,
            "status": response.status,
            "length": len(response.body),
            "headers": [
                (name.decode("latin-1"), base64.b64encode(value).decode("ascii"))
                for name, values in response.headers.items()
                for value in values
            ],
        }
        with (
            atomic_path(self._path(request)) as temporary,
            temporary.open("wb") as file,
        ):
            file.write(json.dumps(head).encode() + b"\n")
            file.write(response.body)

    def _path(self, request: Request) -> Path:
        key = hashlib.sha256(request.url.encode()).hexdigest()
        return self.folder / key[:2] / key


class KeepGood:
    """Which responses are kept: pages that are there or moved for good, and "no robots.txt"."""

    def __init__(self, settings: BaseSettings) -> None: ...

    def should_cache_request(self, request: Request) -> bool:
        """Whether a request may be answered from the cache: any by GET."""
        return request.method == "GET"

    def should_cache_response(self, response: Response, request: Request) -> bool:
        """Whether a response is kept."""
        if response.status == 200 and request.meta.get("keep_if_html"):
            return is_html(response)
        if response.status == 200:
            return response.body.startswith(request.meta.get("keep_if_begins", b""))
        is_robots = urlparse_cached(request).path == "/robots.txt"
        return response.status in ((404, 410) if is_robots else (301, 308))

    def is_cached_response_fresh(
        self, cachedresponse: Response, request: Request
    ) -> bool:
        """Whether a kept response serves as it is: always."""
        return True

    def is_cached_response_valid(
        self, cachedresponse: Response, response: Response, request: Request
    ) -> bool:
        """Whether a kept response still holds after asking again: always."""
        return True


def is_html(response: Response) -> bool:
    """Whether a response is sent as HTML; one that says nothing is taken for it."""
    sent_as = (response.headers.get("Content-Type") or b"text/html").partition(b";")[0]
    return sent_as.strip().lower() in (b"text/html", b"application/xhtml+xml")
