"""What came of a run, for people."""

from __future__ import annotations

import shlex

from toolbank.run.run import RunResult


def describe_result(result: RunResult) -> str:
    """The table of the run's metrics, if it is of this bank, and where everything lies."""
    blocks = [*_figures(result), result.waiting]
    lines = [line for block in blocks if block for line in (block, "")]
    if not result.did:
        lines.append("Everything was done already; nothing was run.")
    return "\n".join([*lines, *_places(result), *_next(result)])


def _figures(result: RunResult) -> list[str]:
    from toolbank.evaluation.figures import read_differences, read_figures, read_labels
    from toolbank.evaluation.table import (
        format_comparisons,
        format_notes,
        format_table,
    )

    folder = result.folder
    if "evaluate" in result.todo and "evaluate" not in result.did:
        return []
    return [
        format_table(read_figures(folder.metrics)),
        format_comparisons(read_differences(folder.comparisons)),
        format_notes(read_labels(folder.labels)),
    ]


def _places(result: RunResult) -> list[str]:
    folder = result.folder
    has_queries = (folder.bank / "queries.parquet").exists()
    search = f'toolbank search {shlex.quote(str(folder.path))} "your request"'
    places = {
        folder.bank: "tools and queries" if has_queries else "tools",
        folder.models: f"retrievers; try: {search}",
        folder.metrics: "every figure with its interval",
        folder.hits: "what each retriever found for each query",
        folder.report: "all of it for people",
    }
    return [f"{path}: {what}" for path, what in places.items() if path.exists()]


def _next(result: RunResult) -> list[str]:
    """What is not done, and the command that goes on."""
    if not result.todo:
        return []
    command, end = (
        f"toolbank run {shlex.quote(str(result.folder.path))}",
        result.ended_early,
    )
    if end is not None and end.option:
        command += f" {end.option}"
    return [
        f"The generation ended early: {end.message}."
        if end is not None
        else f"Not done, or of an earlier bank or recipe: {', '.join(result.todo)}.",
        f"Next: {command}",
    ]
