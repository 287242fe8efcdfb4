"""The crawl of one site: inventory, pages with tables, pages of the tools."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from typing import Any, TypeVar
from urllib.parse import quote, unquote, urljoin, urlsplit

from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider
from scrapy.http import Response
from tqdm import tqdm
from twisted.python.failure import Failure

from toolbank.sources.sphinx.crawl_state import Crawl
from toolbank.sources.sphinx.inventory import (
    INVENTORY_HEAD,
    Entry,
    Inventory,
    read_inventory,
    select,
)
from toolbank.sources.sphinx.pages.page import Page
from toolbank.sources.sphinx.site import Site
from toolbank.sources.sphinx.web.cache_middleware import (
    GONE,
    CacheMiddleware,
    content_type,
    is_html,
)
from toolbank.sources.sphinx.web.decode import decode_html
from toolbank.sources.sphinx.web.refusals import (
    FORBIDDEN,
    Refused,
    in_a_line,
    may_pass,
    may_pass_status,
    reason_of,
)
from toolbank.sources.sphinx.web.throttle import Throttle
from toolbank.system.errors import InputError, ToolbankError

# How many folders above a page may be asked for an inventory.
_MAX_FOLDERS = 6
# Requests given to Scrapy for each that it may send at once: all of them would fill the memory.
_AHEAD = 4
_Part = TypeVar("_Part")
_TOO_DEEP = "nested too deeply"


class SphinxSpider(Spider):
    """Fills a `Crawl`. A page's tree is dropped as soon as it is read.

    `site_of` gives the rules for the inventory that the site turns out to have. For a site whose
    rules are guessed it is also looked for where the front page leads, and in the folders above.
    """

    name = "sphinx"

    def __init__(
        self,
        site_of: Callable[[Inventory, str], Site],
        crawl: Crawl,
    ) -> None:
        super().__init__()
        self._site_of = site_of
        self._inventory_url = urljoin(crawl.base_url, "objects.inv")
        self._base_url = crawl.base_url
        self._crawl = crawl
        self._further: list[str] | None = None
        self._wanted: dict[str, list[Entry]] = {}
        self._left: Iterator[str] = iter(())
        self._pending = 0
        self._read: Callable[[Response, str], None] = self._read_tools
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
        yield self._ask_for_inventory(self._inventory_url)

    def _ask_for_inventory(self, url: str) -> Request:
        return Request(
            url,
            callback=self._read_inventory,
            errback=self._lose_inventory,
            meta={
                "keep_if_begins": INVENTORY_HEAD,
                "keep_if_gone": self._crawl.guessed,
            },
        )

    def _read_inventory(self, response: Response) -> Iterator[Request]:
        if response.status in GONE and self._crawl.guessed and self._further is None:
            yield Request(
                self._base_url,
                callback=self._read_front,
                errback=self._lose_inventory,
                meta={"keep_if_html": True},
            )
            return
        if response.status in GONE and self._further:
            yield self._ask_for_inventory(self._further.pop(0))
            return
        if response.status != 200:
            self._crawl.error = _no_inventory(response)
            return
        inventory = read_inventory(response.body, response.url)
        self._base_url = urljoin(response.url, ".")
        site = self._site_of(inventory, self._base_url)
        scope = select(inventory, site)
        self._crawl.scope = scope
        if not site.tables:
            yield from self._ask_for_tools()
        elif scope.table_pages:
            yield from self._ask_for_pages(scope.table_pages, self._read_tables)
        else:
            raise InputError(
                f"{response.url}: no page of this site fits tables: "
                f"{', '.join(site.tables)}. Change them in the site's YAML."
            )

    def _read_front(self, response: Response) -> Iterator[Request]:
        """Look for the inventory in the nearest folders of the page that the address led to."""
        self._further = []
        *folders, _ = urlsplit(response.url).path.split("/")
        for depth in range(len(folders), 0, -1)[:_MAX_FOLDERS]:
            url = urljoin(response.url, "/".join([*folders[:depth], "objects.inv"]))
            if url != self._inventory_url:
                self._further.append(url)
        if self._further:
            yield self._ask_for_inventory(self._further.pop(0))
        else:
            self._crawl.error = _no_inventory(response)

    def _ask_for_tools(self) -> Iterator[Request]:
        scope = self._crawl.scope
        if scope is None:
            raise AssertionError("pages are asked for by an inventory")
        for (path, anchor), entry in scope.entries.items():
            if not scope.site.tables or (path, anchor) in self._crawl.listed:
                self._wanted.setdefault(path, []).append(entry)
        yield from self._ask_for_pages(sorted(self._wanted), self._read_tools)

    def _ask_for_pages(
        self, paths: Collection[str], read: Callable[[Response, str], None]
    ) -> Iterator[Request]:
        self._left, self._pending, self._read = iter(paths), len(paths), read
        self._progress.total += len(paths)
        self._progress.refresh()
        for _ in range(_AHEAD * self.settings.getint("CONCURRENT_REQUESTS")):
            yield from self._ask_next()

    def _ask_next(self) -> Iterator[Request]:
        """Ask for a page more; once the crawl has ended, only for one that is kept."""
        throttle, kept = self._part(Throttle), self._part(CacheMiddleware)
        for path in self._left:
            if not throttle.refusal or kept.has_kept(self._base_url + _quoted(path)):
                yield self._ask(path)
                return
            self._fail(None, path, throttle.refusal)
            self._crawl.may_pass.add(path)
            self._pending -= 1
        if not self._pending and self._read == self._read_tables:
            yield from self._ask_for_tools()

    def _ask(self, path: str) -> Request:
        return Request(
            urljoin(self._base_url, _quoted(path)),
            callback=self._read_page,
            errback=self._lose_page,
            cb_kwargs={"path": path},
            meta={"keep_if_html": True},
            dont_filter=True,
        )

    def _read_page(self, response: Response, path: str) -> Iterator[Request]:
        self._read(response, path)
        self._pending -= 1
        yield from self._ask_next()

    def _read_tables(self, response: Response, path: str) -> None:
        page = self._open(response, path)
        if page is not None:
            self._crawl.listed |= page.table_targets()

    def _read_tools(self, response: Response, path: str) -> None:
        page = self._open(response, path)
        if page is None:
            return
        try:
            for entry in self._wanted[path]:
                found = page.read(entry.anchor, entry.role)
                if found is not None:
                    self._crawl.objects[path, entry.anchor] = found
        except RecursionError:
            self._crawl.failed[path] = _TOO_DEEP

    def _open(self, response: Response, path: str) -> Page | None:
        """The page, counted; None, with the reason noted, where it is none."""
        if response.status != 200:
            self._fail(response.request, path, f"HTTP status {response.status}")
            if may_pass_status(response.status):
                self._crawl.may_pass.add(path)
            return None
        if not is_html(response):
            sent_as = ascii(content_type(response)[:50])
            self._fail(response.request, path, f"not HTML, but {sent_as}")
            return None
        self._progress.update()
        self._crawl.pages[path] = len(response.body)
        if "cached" in response.flags:
            self._crawl.from_cache.add(path)
        if "stale" in response.flags:
            self._crawl.stale.add(path)
        sent_as = (response.headers.get("Content-Type") or b"").decode("latin-1")
        html = decode_html(response.body, sent_as)
        try:
            return Page(html, self._path_of(response.url) or path)
        except RecursionError:
            self._crawl.failed[path] = _TOO_DEEP
            return None

    def _path_of(self, url: str) -> str:
        """Where a page lies in the site's folder; "" if it is elsewhere."""
        if not url.startswith(self._base_url):
            return ""
        return unquote(url.removeprefix(self._base_url))

    def _fail(self, request: Request | None, path: str, reason: str) -> None:
        self._progress.update()
        meta = request.meta if request is not None else {}
        if request is not None and {"redirect_urls", "is_of_stub"} & meta.keys():
            if request.url in meta.get("redirect_urls", ()):
                reason = "redirected in a loop"
            led_to = in_a_line(request.url)
            if led_to not in reason:
                reason = f"{reason}, led to {led_to}"
        self._crawl.failed[path] = reason

    def _lose_page(self, failure: Failure) -> Iterator[Request]:
        error = failure.value
        if isinstance(error, ToolbankError):
            self._crawl.error = error
            raise CloseSpider("pages can't be kept")
        request: Request = failure.request  # type: ignore[attr-defined]
        path = request.cb_kwargs["path"]
        self._fail(request, path, reason_of(error))
        if may_pass(error):
            self._crawl.may_pass.add(path)
        self._pending -= 1
        yield from self._ask_next()

    def _lose_inventory(self, failure: Failure) -> None:
        url = self._inventory_url
        error = failure.value
        if isinstance(error, ToolbankError):
            self._crawl.error = error
        elif str(error) == FORBIDDEN:
            self._crawl.error = InputError(
                f"{url}: {FORBIDDEN}. The site does not want to be read by programs; ask the "
                "people who run it, or read the package itself (`type: python`)."
            )
        elif isinstance(error, Refused) and not may_pass(error):
            self._crawl.error = InputError(
                f"{url}: {reason_of(error)}. Give the address that the site really has."
            )
        else:
            self._crawl.error = ToolbankError(
                f"{url}: no answer ({reason_of(error)}). Is the site up, and the address "
                "right? Then run the command again; pages that were read are kept."
            )

    def _stop_on_error(self, failure: Failure) -> None:
        error = failure.value
        if self._crawl.error is None:
            self._crawl.error = (
                error if isinstance(error, Exception) else RuntimeError(str(error))
            )
        self._closing = asyncio.ensure_future(
            self.crawler.engine.close_spider_async(reason="error")
        )

    def _end(self, reason: str) -> None:
        self._crawl.is_complete = reason == "finished"
        throttle = self._part(Throttle)
        self._crawl.requests, self._crawl.limit = throttle.sent, throttle.ended
        self._progress.close()

    def _part(self, kind: type[_Part]) -> _Part:
        part = self.crawler.get_downloader_middleware(kind)
        if part is None:
            raise AssertionError(f"the settings of a crawl have {kind.__name__}")
        return part


def _quoted(path: str) -> str:
    return quote(path, safe="/%~!$&'()*+,;=:@")


def _no_inventory(response: Response) -> ToolbankError:
    if may_pass_status(response.status):
        return ToolbankError(
            f"{response.url}: the site answers with status {response.status}. "
            "Wait a while and run the command again."
        )
    if response.status in (401, 403):
        return InputError(
            f"{response.url}: the site lets no one in without a login (status "
            f"{response.status}). Serve a copy of its pages, and give that address."
        )
    return InputError(
        f"{response.url}: no inventory there (status {response.status}). Give the address of "
        "the folder that the site's objects.inv lies in."
    )
