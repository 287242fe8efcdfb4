"""The crawl of one site: inventory, pages with tables, pages of the tools."""

import asyncio
from collections.abc import Callable, Collection, Iterator
from typing import Any
from urllib.parse import quote, unquote, urljoin, urlsplit

from tqdm import tqdm

from toolbank.sources.site import Site, narrowed
from toolbank.sources.sphinx.guess import guess_site
from toolbank.sources.sphinx.inventory import (
    INVENTORY_HEAD,
    Inventory,
    InventoryEntry,
    read_inventory,
    select,
)
from toolbank.sources.sphinx.pages.page import Page, ShapeError
from toolbank.sources.sphinx.settings import SphinxSource
from toolbank.sources.sphinx.tools import Crawl
from toolbank.sources.web.answer import (
    GONE,
    ForbiddenError,
    NotAskedError,
    RefusedError,
    RequestError,
    WebResponse,
    may_pass_status,
    status_error,
)
from toolbank.sources.web.client import PAGE, FetchPurpose, SiteClient
from toolbank.system.errors import InputError, ToolbankError

# Folders above a page in which an inventory is looked for.
_MAX_FOLDERS = 6


class Crawler:
    """Crawls a site and fills a `Crawl`; a page's tree is dropped once it is read.

    Without a `site`, the rules are guessed, and the inventory is also looked for where the front
    page redirects to, and in the folders above.
    """

    def __init__(
        self, crawl: Crawl, config: SphinxSource, site: Site | None, client: SiteClient
    ) -> None:
        self._crawl = crawl
        self._config = config
        self._site = site
        self._client = client
        self._base_url = crawl.base_url
        self._wanted: dict[str, list[InventoryEntry]] = {}
        self._progress: Any = None

    async def run(self) -> None:
        """Read the site.

        Raises:
            InputError: it has no inventory, or denies access.
            ToolbankError: it is down, or the cache can't be written.
        """
        with tqdm(
            desc=f"crawl {self._base_url}", unit=" pages", disable=None, total=0
        ) as self._progress:
            inventory = await self._find_inventory()
            rules = self._site or guess_site(inventory, self._base_url)
            site = narrowed(rules, self._config.include, self._config.exclude)
            self._crawl.scope = scope = select(inventory, site)
            if site.tables and not scope.table_pages:
                raise InputError(
                    f"{self._base_url}objects.inv: no page of this site fits tables: "
                    f"{', '.join(site.tables)}. Change `tables` in the site's YAML."
                )
            await self._read_pages(scope.table_pages, self._read_tables)
            for (path, anchor), entry in scope.entries.items():
                if not site.tables or (path, anchor) in self._crawl.listed:
                    self._wanted.setdefault(path, []).append(entry)
            await self._read_pages(sorted(self._wanted), self._read_tools)
        self._crawl.requests = self._client.throttle.sent
        self._crawl.limit = self._client.throttle.ended

    async def _find_inventory(self) -> Inventory:
        url = urljoin(self._base_url, "objects.inv")
        answer = await self._ask_for_inventory(url)
        if answer.status in GONE and self._crawl.guessed:
            front = await self._get(self._base_url, PAGE)
            further = list(_inventories_above(front, url))
            if not further:
                raise _no_inventory(front)
            for place in further:
                answer = await self._ask_for_inventory(place)
                if answer.status not in GONE:
                    break
        if answer.status != 200:
            raise _no_inventory(answer)
        self._base_url = urljoin(answer.url, ".")
        return read_inventory(answer.body, answer.url)

    async def _ask_for_inventory(self, url: str) -> WebResponse:
        def keeps(answer: WebResponse) -> bool:
            if answer.status == 200:
                return answer.body.startswith(INVENTORY_HEAD)
            return self._crawl.guessed and answer.status in GONE

        return await self._get(url, FetchPurpose(keeps))

    async def _get(self, url: str, wanted: FetchPurpose) -> WebResponse:
        """A response that the crawl can't do without."""
        try:
            return await self._client.get(url, wanted)
        except RequestError as error:
            url = urljoin(self._crawl.base_url, "objects.inv")
            raise _no_answer(url, error) from error

    async def _read_pages(
        self, paths: Collection[str], read: Callable[[Page, str], None]
    ) -> None:
        self._progress.total += len(paths)
        self._progress.refresh()
        left = iter(paths)

        async def work() -> None:
            for path in left:
                await self._read_page(path, read)

        workers = [
            asyncio.ensure_future(work()) for _ in range(self._client.concurrency)
        ]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()

    async def _read_page(self, path: str, read: Callable[[Page, str], None]) -> None:
        """Read a page or note its failure; after the end of the crawl, only cached pages."""
        url = urljoin(self._base_url, quote(path, safe="/%~!$&'()*+,;=:@"))
        try:
            refusal = self._client.throttle.refusal
            if refusal and not self._client.has_kept(url):
                raise NotAskedError(refusal)
            answer = await self._client.get(url, PAGE)
        except RequestError as error:
            self._fail(path, str(error), error.may_pass)
            return
        self._progress.update()
        if answer.status != 200 or not answer.is_html:
            is_there = answer.status == 200
            kind = f"not HTML, but {answer.content_type[:50]!a}"
            reason = kind if is_there else f"HTTP status {answer.status}"
            refused = RefusedError(reason)
            refused = refused if answer.url == url else refused.led_to(answer.url)
            self._fail(path, str(refused), may_pass_status(answer.status))
            return
        self._crawl.pages[path] = len(answer.body)
        if answer.origin != "sent":
            self._crawl.from_cache.add(path)
        if answer.origin == "stale":
            self._crawl.stale.add(path)
        try:
            read(Page(answer.html, self._path_of(answer.url) or path), path)
        except ShapeError as error:
            self._fail(path, str(error), may_pass=False)
        except RecursionError:
            self._fail(path, "nested too deeply", may_pass=False)

    def _read_tables(self, page: Page, _: str) -> None:
        self._crawl.listed |= page.table_targets()

    def _read_tools(self, page: Page, path: str) -> None:
        for entry in self._wanted[path]:
            found = page.read(entry.anchor, entry.role)
            if found is not None:
                self._crawl.objects[path, entry.anchor] = found

    def _path_of(self, url: str) -> str:
        """The path of a page in the site's folder, or ""."""
        if not url.startswith(self._base_url):
            return ""
        return unquote(url.removeprefix(self._base_url))

    def _fail(self, path: str, reason: str, may_pass: bool) -> None:
        self._crawl.failed[path] = reason
        if may_pass:
            self._crawl.may_pass.add(path)


def _inventories_above(front: WebResponse, asked: str) -> Iterator[str]:
    """Inventories in the nearest folders of the page that the address redirects to."""
    *folders, _ = urlsplit(front.url).path.split("/")
    for depth in range(len(folders), 0, -1)[:_MAX_FOLDERS]:
        url = urljoin(front.url, "/".join([*folders[:depth], "objects.inv"]))
        if url != asked:
            yield url


def _no_inventory(answer: WebResponse) -> ToolbankError:
    return status_error(
        answer.url,
        answer.status,
        "It requires a login: serve a copy of its pages and give that address.",
        "There is no inventory there. Give the address of the folder with the site's objects.inv.",
    )


def _no_answer(url: str, error: RequestError) -> ToolbankError:
    if isinstance(error, ForbiddenError):
        return InputError(
            f"{url}: {error}. The site does not want to be read by programs. Ask its "
            "owner, or read the package itself (`type: python`)."
        )
    if not error.may_pass:
        return InputError(f"{url}: {error}. Check the address of the site.")
    return ToolbankError(
        f"{url}: no answer ({error}). Check that the site is up and the address is "
        "right, and run the command again; pages that were read are kept."
    )
