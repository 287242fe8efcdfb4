"""A Sphinx site, as a kind of source."""

from pathlib import Path

from toolbank.sources.kind import Collected, SourceKind
from toolbank.sources.sphinx.source import SphinxSource


def _read_tools(config: SphinxSource, cache: Path) -> Collected:
    from toolbank.sources.sphinx.crawl import crawl_site
    from toolbank.sources.sphinx.crawl_report import count, problems, record

    crawl = crawl_site(config, cache)
    return Collected(
        tuple(crawl.tools),
        {"source": config.label, **count(crawl)},
        crawls=({"source": config.label, **record(crawl)},),
        problems=problems(crawl),
        complete=not crawl.may_pass,
    )


def _content_id(config: SphinxSource) -> str:
    return f"{config.label}@{config.base_url}"


KIND = SourceKind(
    SphinxSource, _read_tools, _content_id, keeps="Pages that were read are kept."
)
