"""Pairwise comparison of requests."""
