"""Polite HTTP for the crawler: robots.txt, rates, limits and a cache."""
