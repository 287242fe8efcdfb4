"""The tools of a Sphinx site: crawl it, and count what came of it."""

import time
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path

from toolbank.sources.site import Site, load_site, narrowed
from toolbank.sources.sphinx.crawl_report import no_tools, record
from toolbank.sources.sphinx.crawl_state import Crawl
from toolbank.sources.sphinx.guess import guess_site
from toolbank.sources.sphinx.inventory import Inventory
from toolbank.sources.sphinx.source import SphinxSource
from toolbank.sources.sphinx.tools import read_tools
from toolbank.sources.web.crawl_policy import CrawlPolicy
from toolbank.system import aio
from toolbank.system.files import write_json
from toolbank.system.net import checked_address


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
    aio.run(_fill(crawl, site_of, cache, config.crawl))
    crawl.seconds = time.monotonic() - start
    crawl.tools, crawl.left_out = read_tools(crawl)
    if record_path is not None:
        write_json(record_path, record(crawl))
    if not crawl.tools:
        raise no_tools(crawl)
    return crawl


async def _fill(
    crawl: Crawl,
    site_of: Callable[[Inventory, str], Site],
    cache: Path,
    policy: CrawlPolicy,
) -> None:
    """Crawl to the end, or to the error that is met."""
    from toolbank.sources.sphinx.crawler import Crawler
    from toolbank.sources.web.cache import PageCache
    from toolbank.sources.web.client import SiteClient
    from toolbank.sources.web.crawl_settings import crawl_settings
    from toolbank.sources.web.download import Downloader
    from toolbank.sources.web.throttle import Throttle

    settings = crawl_settings(crawl.base_url, policy)
    throttle = Throttle(settings)
    kept = PageCache(cache.resolve(), settings.max_bytes)
    async with aclosing(Downloader(settings)) as downloader:
        client = SiteClient(crawl.base_url, policy, kept, throttle, downloader)
        await Crawler(crawl, site_of, client, throttle, settings.concurrency).run()
