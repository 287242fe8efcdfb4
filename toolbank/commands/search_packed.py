"""`toolbank search` of a packed finder."""

from __future__ import annotations

from pathlib import Path

import typer

from toolbank.commands.options import echo
from toolbank.system.terminal import one_line, print_message

_LONGEST_NAME, _LONGEST_SUMMARY = 80, 200
_FITS = {
    True: "true",
    False: "false (probably none of these tools serves the request; say it in other words)",
}


def search_packed(
    folder: Path,
    query: str | None,
    k: int,
    min_score: float | None,
    retriever: str | None,
) -> None:
    """Print the tools that a packed finder has for a request."""
    from toolbank.search.packed import open_packed

    if query is None:
        raise typer.BadParameter(
            "--queries is of a run; a packed finder takes one request."
        )
    finder = open_packed(folder, retriever=retriever, one=True)
    answer = finder.answer(query, k, min_score, retriever=retriever)
    (label,) = finder.retrievers
    print_message(f"by {label}; {finder.explain_scores(label)}")
    if answer.fits is not None:
        echo(f"fits: {_FITS[answer.fits]}")
    if not answer.hits:
        above = "" if min_score is None else f" with a score of at least {min_score:g}"
        echo(f"No tool is found{above}. Say it in other words.")
        return
    names = [one_line(hit.tool.name, _LONGEST_NAME) for hit in answer.hits]
    width = max(map(len, names))
    for hit, name in zip(answer.hits, names, strict=True):
        summary = one_line(hit.tool.summary, _LONGEST_SUMMARY)
        echo(f"{hit.score:7.3f}  {name:<{width}}  {summary}".rstrip())
