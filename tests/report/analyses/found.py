"""Hits by hand."""

from toolbank.evaluation.evaluate import Found


def found(tools, hits, query_id="q1", query="Which is it?"):
    """One query's; tools are letters."""
    return Found("test", query_id, query, tuple(tools), tuple(hits))
