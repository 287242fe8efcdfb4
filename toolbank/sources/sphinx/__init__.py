"""Sphinx sites as a source of tools: pages are crawled and read through crawlers/<site>.yaml."""

from toolbank.sources.sphinx.crawl import crawl_site
from toolbank.sources.sphinx.outcome import CrawlResult

__all__ = ["CrawlResult", "crawl_site"]
