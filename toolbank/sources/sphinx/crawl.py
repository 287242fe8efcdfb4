"""Crawl a Sphinx site, and report counts, objects and problems."""

import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import aclosing
from difflib import get_close_matches
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

from toolbank.sources.site import Site, covers, load_site
from toolbank.sources.sphinx.crawler import Crawler
from toolbank.sources.sphinx.inventory import SiteScope, tool_name
from toolbank.sources.sphinx.settings import SphinxSource
from toolbank.sources.sphinx.tools import Crawl, is_loss, read_tools
from toolbank.sources.web.client import SiteClient
from toolbank.system import aio
from toolbank.system.errors import InputError, ToolbankError
from toolbank.system.files import write_json
from toolbank.system.net import checked_address
from toolbank.system.numbers import count as counted

_NAMED_PAGES = 3
_NAMED_FAILURES = 20


def count(crawl: Crawl) -> dict[str, Any]:
    """Return the counts for bank.json, with the first pages that failed.

    `objects` of the inventory = `tools` + `aliases` + the sum of `left_out`. Equal pages give
    equal counts, whatever the time and the cache.
    """
    failed = sorted(crawl.failed.items())
    return {**_counts(crawl), "failed_pages": dict(failed[:_NAMED_FAILURES])}


def record(crawl: Crawl) -> dict[str, Any]:
    """Return the content of crawl.json: the counts with every object and page by name."""
    left_out = crawl.left_out.items()
    return {
        **_counts(crawl),
        "site": crawl.found.site.model_dump(mode="json"),
        "failed_pages": dict(sorted(crawl.failed.items())),
        "other_names": {one.name: one.aliases for one in crawl.tools if one.aliases},
        "left_out": {reason: sorted(map(str, items)) for reason, items in left_out},
    }


def summarize(crawl: Crawl) -> str:
    """Summarize a crawl in a few lines."""
    counts = _counts(crawl)
    pages = len(crawl.pages)
    rate = f", {pages / crawl.seconds:.0f} a second" if pages > 1 else ""
    left_out = sorted(counts["left_out"].items(), key=lambda item: -item[1])
    lines = [
        f"{counts['project']} {counts['version']}: {counted(pages, 'page')} in "
        f"{crawl.seconds:.1f} s{rate}; {len(crawl.from_cache):,} from the cache, "
        f"{counted(crawl.requests, 'request')} sent",
        f"{counted(counts['objects'], 'object')} in the inventory: "
        f"{counted(counts['tools'], 'tool')}, {counted(counts['aliases'], 'other name')} "
        f"of them{', and left out:' if left_out else ''}",
        *(f"  {number:8,}  {reason}" for reason, number in left_out),
    ]
    if wordless := counts["without_summary"]:
        lines.append(f"{counted(wordless, 'tool')} without a summary on the page.")
    return "\n".join(lines)


def problems(crawl: Crawl) -> tuple[str, ...]:
    """Return a line for each rule without match, each reason of failures, and each loss."""
    return tuple(f"{crawl.label}: {problem}" for problem in _problems(crawl))


def no_tools(crawl: Crawl) -> ToolbankError:
    """Return the error of a crawl without tools."""
    lost = problems(crawl)
    if crawl.may_pass:
        again = "Run the command again to resume; pages that were read are kept."
        said = f"{crawl.base_url}: no tool was read. {again}"
        return ToolbankError("\n".join([said, *lost]))
    left_out = _listed(_counts(crawl)["left_out"])
    said = f"{crawl.base_url}: no object of its inventory became a tool ({left_out})."
    remedy = (
        "Check the address, that its pages look like those of Sphinx, and the roles, parents, "
        "include, exclude, pages and tables."
    )
    return InputError("\n".join([f"{said} {remedy}", *lost]))


def _counts(crawl: Crawl) -> dict[str, Any]:
    inventory = crawl.found.inventory
    return {
        "project": inventory.project,
        "version": inventory.version,
        "pages": len(crawl.pages),
        "bytes": sum(crawl.pages.values()),
        "objects": len(inventory.objects),
        "tools": len(crawl.tools),
        "without_summary": sum(not tool.summary for tool in crawl.tools),
        "aliases": sum(len(tool.aliases) for tool in crawl.tools),
        "left_out": {reason: len(items) for reason, items in crawl.left_out.items()},
        "failed": len(crawl.failed),
    }


def _problems(crawl: Crawl) -> Iterator[str]:
    yield from _idle_rules(crawl.found)
    if crawl.limit:
        again = "Run the command again to resume; what was read is kept."
        yield f"the crawl ended early ({crawl.limit}). {again}"
    if crawl.stale:
        yield f"{counted(len(crawl.stale), 'page')} could not be checked; cached copies were read"
    failed: dict[str, list[str]] = {}
    for path, reason in sorted(crawl.failed.items()):
        failed.setdefault(reason, []).append(urljoin(crawl.base_url, path))
    for reason, urls in sorted(failed.items()):
        more = ["..."] if len(urls) > _NAMED_PAGES else []
        first = ", ".join([*urls[:_NAMED_PAGES], *more])
        yield f"{counted(len(urls), 'page')} failed ({reason}): {first}"
    items = crawl.left_out.items()
    lost = {reason: len(objects) for reason, objects in items if is_loss(reason)}
    if total := sum(lost.values()):
        yield f"{counted(total, 'object')} not found ({_listed(lost)})"


def _idle_rules(scope: SiteScope) -> Iterator[str]:
    """Names in the rules that match nothing in the inventory, with the nearest match."""
    rules = scope.site.objects
    own = [
        tool_name(item, scope.site)
        for item in scope.inventory.objects
        if item.domain == rules.domain
    ]
    parents = {name.rpartition(".")[0] for name in own}
    for rule in rules.include:
        if not any(covers(name, (rule,)) for name in own):
            yield f"include: there is no {rule}{_near(rule, {*own, *parents})}"
    for rule in rules.parents:
        if rule not in parents:
            yield f"parents: there is no {rule}{_near(rule, parents)}"


def _near(name: str, known: Collection[str]) -> str:
    near = get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{what}: {number:,}" for what, number in counts.items()) or "none"


def crawl_site(
    config: SphinxSource, cache: Path, record_path: Path | None = None
) -> Crawl:
    """Read the tools of a site by crawlers/<site>.yaml, or by its inventory alone.

    Pages are requested at `config.base_url`, if given. With a `site`, a tool's `url` always has the
    site's own address, so the tools do not depend on where the pages were read. Responses are
    cached in the folder `cache`; fresh ones are not requested again. The result of every object is
    written to `record_path`, even if none became a tool.

    Raises:
        InputError: no such site, a wrong address, no inventory there, or no tool in it.
        ToolbankError: the site is down, or the cache can't be written.
    """
    site = load_site(config.site) if config.site else None
    base_url = checked_address(config.base_url or (site.base_url if site else ""))

    start = time.monotonic()
    crawl = Crawl(config.label, base_url, guessed=site is None)
    aio.run(_fill(crawl, config, site, cache))
    crawl.seconds = time.monotonic() - start
    crawl.tools, crawl.left_out = read_tools(crawl)
    if record_path is not None:
        write_json(record_path, record(crawl))
    if not crawl.tools:
        raise no_tools(crawl)
    return crawl


async def _fill(
    crawl: Crawl, config: SphinxSource, site: Site | None, cache: Path
) -> None:
    """Crawl until the end or an error."""
    async with aclosing(SiteClient(crawl.base_url, config.crawl, cache)) as client:
        await Crawler(crawl, config, site, client).run()
