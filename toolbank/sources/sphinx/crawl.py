"""The tools of a Sphinx site: crawl it, and count what came of it."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

from toolbank import aio
from toolbank.addresses import checked_address
from toolbank.bank import Tool
from toolbank.errors import InputError, ToolbankError
from toolbank.sources.conduct import Conduct
from toolbank.sources.config import SphinxSource
from toolbank.sources.names import with_prompt_names
from toolbank.sources.sphinx.guess import guess_site, site_yaml
from toolbank.sources.sphinx.harvest import Harvest
from toolbank.sources.sphinx.inventory import Inventory, Scope
from toolbank.sources.sphinx.record import describe
from toolbank.sources.sphinx.site import Site, load_site, narrowed
from toolbank.sources.sphinx.tools import is_loss, read_harvest

_SECONDS_TO_STOP = 3
_NAMED_PAGES = 3


@dataclass(frozen=True)
class CrawlResult:
    """Tools sorted by name, with their prompt names, and what became of everything else.

    `info` has the counts for bank.json: `objects` = `tools` + `aliases` + the sum of `skipped`;
    `record` is the content of crawl.json: the same with every object and page by its name. Both
    are the same for the same pages. `pages` were read in `seconds` with so many `requests`,
    `from_cache` of them without being sent anew, and of those `stale` ones could not be checked.
    `problems` are lines on what was lost. Not `complete`: another crawl may get
    pages that this one could not. `rules` is the text of a crawlers/<site>.yaml that takes what
    this crawl took; `guessed` says that there was none before.
    """

    tools: list[Tool]
    info: dict[str, Any]
    record: dict[str, Any]
    rules: str
    guessed: bool
    pages: int
    from_cache: int
    stale: int
    requests: int
    seconds: float
    problems: tuple[str, ...] = ()
    complete: bool = True

    def summary(self) -> str:
        """What a person wants to know of the crawl, in a few lines."""
        rate = self.pages / self.seconds if self.seconds else 0.0
        lines = [
            f"{self.info['project']} {self.info['version']}: {self.pages:,} pages "
            f"({self.from_cache:,} from the cache) in {self.seconds:.1f} s, "
            f"{rate:.0f} pages/s, {self.requests:,} requests",
            f"{self.info['objects']:,} objects in the inventory: "
            f"{self.info['tools']:,} tools, {self.info['aliases']:,} other names of them; "
            f"left out: {_counted(self.info['skipped'])}",
        ]
        if wordless := self.info["without_summary"]:
            lines.append(f"No summary on the pages of {wordless:,} tools.")
        return "\n".join([*lines, *self.problems])


def crawl_site(config: SphinxSource, cache: Path) -> CrawlResult:
    """Read the tools of a site through crawlers/<site>.yaml, or by its inventory alone.

    Pages are asked for at `config.base_url` where it is given, and with a `site` a tool's `url`
    is always that of the site's own address, so that the tools are the same wherever the pages
    lie. Answers are kept in the folder `cache`; a page that is there and fresh is not asked for
    again. Objects whose pages say the same in every word are one tool with several names. A page
    that can't be read is named in `info`, and its objects are counted as skipped.

    Raises:
        InputError: no such site, a wrong address, no inventory there, or no tool in it.
        ToolbankError: the site is down, or the cache can't be written to.
    """
    site = load_site(config.site) if config.site else None
    base_url = checked_address(config.base_url or (site.base_url if site else ""))

    def site_of(inventory: Inventory, found_at: str) -> Site:
        rules = site or guess_site(inventory, found_at)
        return narrowed(rules, config.include, config.exclude)

    start = time.monotonic()
    inventory_url = urljoin(base_url, site.inventory if site else "objects.inv")
    harvest = _crawl(site_of, inventory_url, site is None, cache, config.conduct)
    seconds = time.monotonic() - start
    if harvest.scope is None:
        raise AssertionError("a crawl that ends without error has an inventory")
    reading = read_harvest(harvest)
    info, record = describe(harvest, reading)
    if not reading.tools and harvest.limit:
        raise ToolbankError(
            f"{base_url}: no tool was read, {harvest.limit}. Run the command again to go "
            "on; pages that were read are kept."
        )
    if not reading.tools:
        raise InputError(
            f"{base_url}: no object of its inventory became a tool "
            f"({_counted(info['skipped'])}). {_remedy(harvest.scope)}"
        )
    return CrawlResult(
        tools=with_prompt_names(reading.tools),
        info=info,
        record=record,
        rules=site_yaml(harvest.scope),
        guessed=site is None,
        pages=len(harvest.pages),
        from_cache=len(harvest.from_cache),
        stale=len(harvest.stale),
        requests=harvest.requests,
        seconds=seconds,
        problems=tuple(_problems(config.label, base_url, harvest, info)),
        complete=not harvest.may_pass,
    )


def _remedy(scope: Scope) -> str:
    if scope.entries and not scope.site.tables:
        return "Its pages don't show them as Sphinx does; was the site made by another program?"
    return "Check roles, parents, include, exclude, pages and tables of its rules."


def _problems(
    label: str, base_url: str, harvest: Harvest, info: dict[str, Any]
) -> Iterator[str]:
    """A line on the pages that failed for each reason, and one on the objects that were lost."""
    if harvest.limit:
        yield (
            f"{label}: the crawl ended early ({harvest.limit}). Run the command again to go "
            "on; what was read is kept."
        )
    if harvest.stale:
        pages = "1 page" if len(harvest.stale) == 1 else f"{len(harvest.stale):,} pages"
        yield f"{label}: {pages} could not be checked, and are read as they were kept"
    failed: dict[str, list[str]] = {}
    for path, reason in sorted(harvest.failed.items()):
        failed.setdefault(reason, []).append(urljoin(base_url, path))
    for reason, urls in sorted(failed.items()):
        more = ", ..." if len(urls) > _NAMED_PAGES else ""
        pages = "1 page" if len(urls) == 1 else f"{len(urls):,} pages"
        yield (
            f"{label}: {pages} failed ({reason}): "
            f"{', '.join(urls[:_NAMED_PAGES])}{more}"
        )
    lost = {reason: n for reason, n in info["skipped"].items() if is_loss(reason)}
    if lost:
        total = sum(lost.values())
        objects = "1 object was" if total == 1 else f"{total:,} objects were"
        yield f"{label}: {objects} not found ({_counted(lost)})"


def _crawl(
    site_of: Callable[[Inventory, str], Site],
    inventory_url: str,
    look_around: bool,
    cache: Path,
    conduct: Conduct,
) -> Harvest:
    from scrapy.crawler import AsyncCrawlerRunner

    from toolbank.sources.sphinx.spider import SphinxSpider
    from toolbank.sources.sphinx.web.manners import crawl_settings
    from toolbank.sources.sphinx.web.pace import Pace

    harvest = Harvest()

    async def crawl() -> None:
        runner = AsyncCrawlerRunner(
            crawl_settings(inventory_url, str(cache.resolve()), conduct)
        )
        crawling = runner.crawl(
            SphinxSpider,
            site_of=site_of,
            inventory_url=inventory_url,
            harvest=harvest,
            look_around=look_around,
        )
        try:
            await asyncio.shield(crawling)
        except asyncio.CancelledError:
            for crawler in runner.crawlers:
                # One that has only begun has no engine to ask.
                with suppress(RuntimeError):
                    if pace := crawler.get_downloader_middleware(Pace):
                        pace.stop()
            stopping = asyncio.ensure_future(runner.stop())
            await asyncio.wait({crawling, stopping}, timeout=_SECONDS_TO_STOP)
            raise

    with _quiet("scrapy"):
        aio.run(crawl())
    if harvest.error is not None:
        raise harvest.error
    if not harvest.is_complete:
        raise ToolbankError(
            f"{inventory_url}: the crawl was cut short. Run the command again; "
            "pages that were read are kept."
        )
    return harvest


@contextmanager
def _quiet(name: str) -> Iterator[None]:
    """Keep a library's log to itself: what matters is counted, or raised."""
    logger = logging.getLogger(name)
    propagated, handler = logger.propagate, logging.NullHandler()
    logger.propagate = False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.propagate = propagated
        logger.removeHandler(handler)


def _counted(skipped: dict[str, int]) -> str:
    return (
        ", ".join(f"{reason}: {count:,}" for reason, count in skipped.items()) or "none"
    )
