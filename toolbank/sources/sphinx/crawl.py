"""The tools of a Sphinx site: crawl it, and count what came of it."""

import asyncio
import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from toolbank.sources.sphinx.crawl_policy import CrawlPolicy
from toolbank.sources.sphinx.crawl_report import no_tools, record
from toolbank.sources.sphinx.crawl_state import Crawl
from toolbank.sources.sphinx.guess import guess_site
from toolbank.sources.sphinx.inventory import Inventory
from toolbank.sources.sphinx.site import Site, load_site, narrowed
from toolbank.sources.sphinx.source import SphinxSource
from toolbank.sources.sphinx.tools import read_tools
from toolbank.system import aio
from toolbank.system.addresses import checked_address
from toolbank.system.errors import ToolbankError
from toolbank.system.files import write_json

_SECONDS_TO_STOP = 3


def crawl_site(
    config: SphinxSource, cache: Path, record_path: Path | None = None
) -> Crawl:
    """Read the tools of a site through crawlers/<site>.yaml, or by its inventory alone.

    Pages are asked for at `config.base_url` where it is given, and with a `site` a tool's `url`
    is always that of the site's own address, so that the tools are the same wherever the pages
    lie. Answers are kept in the folder `cache`; a page that is there and fresh is not asked for
    again. What became of every object is written to `record_path`, even where none became a tool.

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
    crawl = Crawl(config.label, base_url, guessed=site is None)
    _fill(crawl, site_of, cache, config.crawl)
    crawl.seconds = time.monotonic() - start
    if crawl.scope is None:
        raise ToolbankError(
            f"{base_url}objects.inv: no answer that could be used. Is the address right, and the "
            "site in order?"
        )
    crawl.tools, crawl.left_out = read_tools(crawl)
    if record_path is not None:
        write_json(record_path, record(crawl))
    if not crawl.tools:
        raise no_tools(crawl)
    return crawl


def _fill(
    crawl: Crawl,
    site_of: Callable[[Inventory, str], Site],
    cache: Path,
    policy: CrawlPolicy,
) -> None:
    """Run the spider to its end, or to the error that it met."""
    from scrapy.crawler import AsyncCrawlerRunner

    from toolbank.sources.sphinx.spider import SphinxSpider
    from toolbank.sources.sphinx.web.crawl_settings import crawl_settings
    from toolbank.sources.sphinx.web.throttle import Throttle

    async def run() -> None:
        runner = AsyncCrawlerRunner(
            crawl_settings(crawl.base_url, str(cache.resolve()), policy)
        )
        crawling = runner.crawl(SphinxSpider, site_of=site_of, crawl=crawl)
        try:
            await asyncio.shield(crawling)
        except asyncio.CancelledError:
            for crawler in runner.crawlers:
                # One that has only begun has no engine to ask.
                with suppress(RuntimeError):
                    if throttle := crawler.get_downloader_middleware(Throttle):
                        throttle.stop()
            stopping = asyncio.ensure_future(runner.stop())
            with _deaf_to_interrupts():
                await asyncio.wait({crawling, stopping}, timeout=_SECONDS_TO_STOP)
            raise

    with _quiet("scrapy"):
        aio.run(run())
    if crawl.error is not None:
        raise crawl.error
    if not crawl.is_complete:
        raise ToolbankError(
            f"{crawl.base_url}objects.inv: the crawl was cut short. Run the command again; "
            "pages that were read are kept."
        )


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Let a second Ctrl-C not tear apart what the first one ends, for the few seconds it takes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


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
