"""Engines in the workers of a Ray cluster, each a process that may be on another machine."""
