"""Nearest neighbours: the tools of the most similar train queries."""
