"""Sphinx sites as a source of tools: pages are crawled and read through crawlers/<site>.yaml."""

from toolbank.sources.sphinx.crawl import CrawlResult, crawl_site

__all__ = ["CrawlResult", "crawl_site"]
