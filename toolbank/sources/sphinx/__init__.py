"""Sphinx sites as a source of tools: pages are crawled and read by crawlers/<site>.yaml."""

import re
from pathlib import Path

from toolbank.sources.document_parser import is_page
from toolbank.sources.kind import Location, SourceKind, ToolCollection
from toolbank.sources.sphinx.settings import SphinxSource

_MADE_BY = re.compile(
    rb"sphinx|documentation_options|doctools|http-equiv=.?refresh", re.IGNORECASE
)
"""Marks of pages of Sphinx's themes, and of pages that redirect to one."""


def _read_tools(config: SphinxSource, cache: Path) -> ToolCollection:
    from toolbank.sources.sphinx.crawl import count, crawl_site, problems, record

    crawl = crawl_site(config, cache)
    return ToolCollection(
        tuple(crawl.tools),
        {"source": config.label, **count(crawl)},
        crawls=({"source": config.label, **record(crawl)},),
        problems=problems(crawl),
        complete=not crawl.may_pass,
    )


def _anew(config: SphinxSource) -> SphinxSource:
    """Return the source with a policy that revalidates every page."""
    policy = config.crawl.model_copy(update={"max_age_h": 0})
    return config.model_copy(update={"crawl": policy})


def _recognise(location: Location) -> SphinxSource | None:
    """Recognise a page that Sphinx made, or the inventory of a site."""
    if not location.is_url:
        return None
    folder, _, last = location.text.rpartition("/")
    if last == "objects.inv":
        return SphinxSource(base_url=folder)
    if not (is_page(location.content) and _MADE_BY.search(location.content)):
        return None
    return SphinxSource(base_url=folder if last.endswith(".html") else location.text)


KIND = SourceKind(
    SphinxSource,
    _read_tools,
    content_id=lambda config: f"{config.label}@{config.base_url}",
    keeps="Pages that were read are kept.",
    recognise=_recognise,
    takes="the URL of a site that Sphinx made",
    anew=_anew,
)
