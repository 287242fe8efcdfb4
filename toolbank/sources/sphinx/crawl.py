"""The tools of a Sphinx site: crawl it, and count what came of it."""

import asyncio
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

from toolbank import aio
from toolbank.addresses import checked_address
from toolbank.bank import Tool
from toolbank.errors import InputError, ToolbankError
from toolbank.sources.config import SphinxSource
from toolbank.sources.names import with_prompt_names
from toolbank.sources.sphinx.harvest import Harvest
from toolbank.sources.sphinx.site import Site, load_site
from toolbank.sources.sphinx.tools import is_loss, tools_of

_SECONDS_TO_STOP = 3
_NAMED_PAGES = 3


@dataclass(frozen=True)
class CrawlResult:
    """Tools sorted by name, with their prompt names, and `info`: counts for bank.json, the same for the same pages.

    `info["objects"]` = `info["tools"]` + `info["aliases"]` + the sum of `info["skipped"]`.
    `pages` were read in `seconds`, `from_cache` of them without asking the site. `problems` are
    lines on what was lost. Not `complete`: another crawl may get pages that this one could not.
    """

    tools: list[Tool]
    info: dict[str, Any]
    pages: int
    from_cache: int
    seconds: float
    problems: tuple[str, ...] = ()
    complete: bool = True

    def summary(self) -> str:
        """What a person wants to know of the crawl, in a few lines."""
        rate = self.pages / self.seconds if self.seconds else 0.0
        left_out = ", ".join(
            f"{reason} {count:,}" for reason, count in self.info["skipped"].items()
        )
        lines = [
            f"{self.info['project']} {self.info['version']}: {self.pages:,} pages "
            f"({self.from_cache:,} from the cache) in {self.seconds:.1f} s, "
            f"{rate:.0f} pages/s",
            f"{self.info['objects']:,} objects in the inventory: "
            f"{self.info['tools']:,} tools, {self.info['aliases']:,} other names of them; "
            f"left out: {left_out or 'none'}",
        ]
        return "\n".join([*lines, *self.problems])


def crawl_site(config: SphinxSource, cache: Path) -> CrawlResult:
    """Read the tools of a site through crawlers/<site>.yaml.

    Pages are asked for at `config.base_url` where it is given, and a tool's `url` is always that
    of the site's own address, so that the tools are the same wherever the pages lie. Answers are
    kept in the folder `cache`; a page that is there is not asked for again. Objects whose pages
    say the same in every word are one tool with several names. A page that can't be read is
    named in `info`, and its objects are counted as skipped.

    Raises:
        InputError: no such site, a wrong address, no inventory there, or no tool in it.
        ToolbankError: the site is down, or the cache can't be written to.
    """
    site = load_site(config)
    base_url = checked_address(config.base_url or site.base_url)
    start = time.monotonic()
    harvest = _crawl(site, base_url, cache)
    seconds = time.monotonic() - start
    tools, info = tools_of(site, harvest)
    if not tools:
        raise InputError(
            f"{base_url}: no object of its inventory became a tool "
            f"({_counted(info['skipped'])}). Check roles, parents and tables in the YAML."
        )
    return CrawlResult(
        tools=with_prompt_names(tools),
        info=info,
        pages=len(harvest.pages),
        from_cache=len(harvest.from_cache),
        seconds=seconds,
        problems=tuple(_problems(config.site, base_url, harvest, info)),
        complete=not harvest.may_pass,
    )


def _problems(
    site: str, base_url: str, harvest: Harvest, info: dict[str, Any]
) -> Iterator[str]:
    """A line on the pages that failed for each reason, and one on the objects that were lost."""
    failed: dict[str, list[str]] = {}
    for path, reason in sorted(harvest.failed.items()):
        failed.setdefault(reason, []).append(urljoin(base_url, path))
    for reason, urls in sorted(failed.items()):
        more = ", ..." if len(urls) > _NAMED_PAGES else ""
        pages = "1 page" if len(urls) == 1 else f"{len(urls):,} pages"
        yield (
            f"sphinx:{site}: {pages} failed ({reason}): "
            f"{', '.join(urls[:_NAMED_PAGES])}{more}"
        )
    lost = {reason: n for reason, n in info["skipped"].items() if is_loss(reason)}
    if lost:
        total = sum(lost.values())
        objects = "1 object was" if total == 1 else f"{total:,} objects were"
        yield f"sphinx:{site}: {objects} not found ({_counted(lost)})"


def _crawl(site: Site, base_url: str, cache: Path) -> Harvest:
    from scrapy.crawler import AsyncCrawlerRunner

    from toolbank.sources.sphinx.manners import crawl_settings
    from toolbank.sources.sphinx.spider import SphinxSpider

    harvest = Harvest()

    async def crawl() -> None:
        runner = AsyncCrawlerRunner(crawl_settings(base_url, str(cache.resolve())))
        crawling = runner.crawl(
            SphinxSpider, site=site, base_url=base_url, harvest=harvest
        )
        try:
            await asyncio.shield(crawling)
        except asyncio.CancelledError:
            stopping = asyncio.ensure_future(runner.stop())
            await asyncio.wait({crawling, stopping}, timeout=_SECONDS_TO_STOP)
            raise

    with _quiet("scrapy"):
        aio.run(crawl())
    if harvest.error is not None:
        raise harvest.error
    if not harvest.is_complete:
        raise ToolbankError(
            f"{base_url}: the crawl was cut short. Run the command again; "
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
        ", ".join(f"{reason}: {count:,}" for reason, count in skipped.items())
        or "empty"
    )
