"""The crawl of one site: inventory, pages with tables, pages of the tools."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any
from urllib.parse import quote, urljoin

from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider, IgnoreRequest
from scrapy.http import HtmlResponse, Response
from tqdm import tqdm
from twisted.python.failure import Failure

from toolbank.errors import InputError, ToolbankError
from toolbank.sources.sphinx.cache import is_html
from toolbank.sources.sphinx.harvest import Harvest
from toolbank.sources.sphinx.inventory import (
    INVENTORY_HEAD,
    Entry,
    Inventory,
    read_inventory,
)
from toolbank.sources.sphinx.page import Page
from toolbank.sources.sphinx.site import Site

_Callback = Callable[..., Any]
_Errback = Callable[[Failure], Any]

# What the reader calls a failure, by the name of the crawler's exception.
_FAILURES = {
    "DownloadConnectionRefusedError": "connection refused",
    "CannotResolveHostError": "host not found",
    "DownloadTimeoutError": "timed out",
    "DownloadCancelledError": "too large",
    "ResponseDataLossError": "broken off",
    "DownloadFailedError": "connection failed",
}
_PASSING = frozenset(_FAILURES.values()) - {"too large"}


class SphinxSpider(Spider):
    """Fills a `Harvest`. A page's tree is dropped as soon as it is read."""

    name = "sphinx"

    def __init__(self, site: Site, base_url: str, harvest: Harvest) -> None:
        super().__init__()
        self._site = site
        self._base_url = base_url
        self._harvest = harvest
        self._pending_tables = 0
        self._wanted: dict[str, list[Entry]] = {}
        self._progress: Any = None

    @classmethod
    def from_crawler(
        cls, crawler: Crawler, *args: Any, **kwargs: Any
    ) -> "SphinxSpider":
        """Scrapy's constructor; a bug in a callback ends the crawl and is raised after it."""
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider._stop_on_error, signal=signals.spider_error)
        crawler.signals.connect(spider._end, signal=signals.spider_closed)
        return spider

    async def start(self) -> AsyncIterator[Request]:
        """Ask for the inventory."""
        self._progress = tqdm(
            desc=f"crawl {self._base_url}", unit=" pages", disable=None, total=0
        )
        yield Request(
            urljoin(self._base_url, self._site.inventory),
            callback=self._read_inventory,
            errback=self._lose_inventory,
            meta={"keep_if_begins": INVENTORY_HEAD},
        )

    def _read_inventory(self, response: Response) -> Iterator[Request]:
        if response.status != 200:
            self._harvest.error = _no_inventory(response)
            return
        inventory = read_inventory(response.body, response.url, self._site)
        self._harvest.inventory = inventory
        if not self._site.tables:
            yield from self._ask_for_tools(inventory)
        elif not inventory.table_pages:
            raise InputError(
                f"{response.url}: no page of this site fits tables: "
                f"{', '.join(self._site.tables)}. Change them in the site's YAML."
            )
        self._pending_tables = len(inventory.table_pages)
        for path in inventory.table_pages:
            yield self._ask(path, self._read_tables, self._lose_tables)

    def _ask_for_tools(self, inventory: Inventory) -> Iterator[Request]:
        for (path, anchor), entry in inventory.entries.items():
            if not self._site.tables or (path, anchor) in self._harvest.listed:
                self._wanted.setdefault(path, []).append(entry)
        for path in sorted(self._wanted):
            yield self._ask(path, self._read_tools, self._lose_page)

    def _ask(self, path: str, callback: _Callback, errback: _Errback) -> Request:
        self._progress.total += 1
        return Request(
            urljoin(self._base_url, quote(path, safe="/%~!$&'()*+,;=:@")),
            callback=callback,
            errback=errback,
            cb_kwargs={"path": path},
            meta={"keep_if_html": True},
            dont_filter=True,
        )

    def _read_tables(self, response: Response, path: str) -> Iterator[Request]:
        page = self._open(response, path)
        if page is not None:
            self._harvest.listed |= page.table_targets()
        yield from self._end_table()

    def _lose_tables(self, failure: Failure) -> Iterator[Request]:
        self._lose_page(failure)
        yield from self._end_table()

    def _end_table(self) -> Iterator[Request]:
        self._pending_tables -= 1
        if not self._pending_tables and self._harvest.inventory is not None:
            yield from self._ask_for_tools(self._harvest.inventory)

    def _read_tools(self, response: Response, path: str) -> None:
        page = self._open(response, path)
        if page is None:
            return
        try:
            for entry in self._wanted[path]:
                found = page.read(entry.anchor, entry.role)
                if found is not None:
                    self._harvest.objects[path, entry.anchor] = found
        except RecursionError:
            self._harvest.failed[path] = "nested too deeply"

    def _open(self, response: Response, path: str) -> Page | None:
        """The page, counted; None, with the reason noted, where it is none."""
        self._progress.update()
        if response.status != 200:
            self._harvest.failed[path] = f"HTTP status {response.status}"
            if _may_pass(response.status):
                self._harvest.may_pass.add(path)
        elif not isinstance(response, HtmlResponse) or not is_html(response):
            self._harvest.failed[path] = "not HTML"
        else:
            self._harvest.pages[path] = len(response.body)
            if "cached" in response.flags:
                self._harvest.from_cache.add(path)
            return Page(response.text, path)
        return None

    def _lose_page(self, failure: Failure) -> None:
        self._progress.update()
        if isinstance(failure.value, ToolbankError):
            self._harvest.error = failure.value
            raise CloseSpider("pages can't be kept")
        path = failure.request.cb_kwargs["path"]  # type: ignore[attr-defined]
        reason = _reason(failure.value)
        self._harvest.failed[path] = reason
        if reason in _PASSING:
            self._harvest.may_pass.add(path)

    def _lose_inventory(self, failure: Failure) -> None:
        url = urljoin(self._base_url, self._site.inventory)
        error = failure.value
        if isinstance(error, ToolbankError):
            self._harvest.error = error
        elif isinstance(error, IgnoreRequest):
            self._harvest.error = InputError(
                f"{url}: {_reason(error)}. Give the address that the site really has."
            )
        else:
            self._harvest.error = ToolbankError(
                f"{url}: no answer ({_reason(error)}). Is the site up, and the address "
                "right? Then run the command again; pages that were read are kept."
            )

    def _stop_on_error(self, failure: Failure) -> None:
        error = failure.value
        if self._harvest.error is None:
            self._harvest.error = (
                error if isinstance(error, Exception) else RuntimeError(str(error))
            )
        self._closing = asyncio.ensure_future(
            self.crawler.engine.close_spider_async(reason="error")
        )

    def _end(self, reason: str) -> None:
        self._harvest.is_complete = reason == "finished"
        self._progress.close()


def _no_inventory(response: Response) -> ToolbankError:
    if _may_pass(response.status):
        return ToolbankError(
            f"{response.url}: the site answers with status {response.status}. "
            "Wait a while and run the command again."
        )
    return InputError(
        f"{response.url}: no inventory there (status {response.status}). Give the address "
        "of the folder that the site's objects.inv lies in."
    )


def _may_pass(status: int) -> bool:
    """Whether the same request may be answered better later."""
    return status >= 500 or status in (408, 425, 429)


def _reason(error: BaseException | None) -> str:
    """Why a request failed, without what differs from one try to the next."""
    if isinstance(error, IgnoreRequest):
        text = str(error)
        if "max redirections" in text:
            return "redirected too often"
        return "forbidden by robots.txt" if "robots.txt" in text else text
    return _FAILURES.get(type(error).__name__, type(error).__name__)
