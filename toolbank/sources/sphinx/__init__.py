"""Sphinx sites as a source of tools: pages are crawled and read through crawlers/<site>.yaml."""
