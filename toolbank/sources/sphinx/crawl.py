"""The tools of a Sphinx site: crawl it, and count what came of it."""

import asyncio
import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urljoin

from toolbank.sources.conduct import Conduct
from toolbank.sources.config import SphinxSource
from toolbank.sources.names import with_prompt_names
from toolbank.sources.sphinx.guess import guess_site, site_yaml
from toolbank.sources.sphinx.harvest import Harvest
from toolbank.sources.sphinx.inventory import Inventory
from toolbank.sources.sphinx.outcome import CrawlResult, no_tools, problems
from toolbank.sources.sphinx.record import describe
from toolbank.sources.sphinx.site import Site, load_site, narrowed
from toolbank.sources.sphinx.tools import read_harvest
from toolbank.system import aio
from toolbank.system.addresses import checked_address
from toolbank.system.errors import ToolbankError
from toolbank.system.files import write_json

_SECONDS_TO_STOP = 3


def crawl_site(
    config: SphinxSource, cache: Path, record: Path | None = None
) -> CrawlResult:
    """Read the tools of a site through crawlers/<site>.yaml, or by its inventory alone.

    Pages are asked for at `config.base_url` where it is given, and with a `site` a tool's `url`
    is always that of the site's own address, so that the tools are the same wherever the pages
    lie. Answers are kept in the folder `cache`; a page that is there and fresh is not asked for
    again. Objects whose pages say the same in every word are one tool with several names. A page
    that can't be read is named in `info`, and its objects are counted as skipped. What became of
    every object is written to `record`, even where none became a tool.

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
    inventory_url = urljoin(base_url, "objects.inv")
    harvest = _crawl(site_of, inventory_url, site is None, cache, config.conduct)
    seconds = time.monotonic() - start
    if harvest.scope is None:
        raise ToolbankError(
            f"{inventory_url}: no answer that could be used. Is the address right, and the "
            "site in order?"
        )
    reading = read_harvest(harvest)
    info, full_record = describe(harvest, reading)
    if record is not None:
        write_json(record, full_record)
    told = tuple(problems(config.label, base_url, harvest, info))
    if not reading.tools:
        raise no_tools(base_url, harvest, info, told)
    return CrawlResult(
        tools=with_prompt_names(reading.tools),
        info=info,
        record=full_record,
        rules=site_yaml(harvest.scope),
        guessed=site is None,
        pages=len(harvest.pages),
        from_cache=len(harvest.from_cache),
        stale=len(harvest.stale),
        requests=harvest.requests,
        seconds=seconds,
        problems=told,
        complete=not harvest.may_pass,
    )


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
            with _deaf_to_interrupts():
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
