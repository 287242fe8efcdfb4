"""`toolbank search`."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from toolbank.bank.records import find_first_twins
from toolbank.commands.options import OverwriteOption, RunArgument, echo
from toolbank.system import deadline
from toolbank.system.numbers import count
from toolbank.system.terminal import command, one_line, print_message

if TYPE_CHECKING:
    from toolbank.search.finder import Finder, Hit


_LONGEST_NAME, _LONGEST_SUMMARY = 80, 200
_FITS = {
    True: "true",
    False: "false (probably none of these tools serves the request; say it in other words)",
}


_TWINS = 3


def search(
    run: RunArgument,
    query: Annotated[
        str | None, typer.Argument(help="A request, in your own words.")
    ] = None,
    k: Annotated[
        int,
        typer.Option("--k", "-k", metavar="N", min=1, help="Number of tools to find."),
    ] = 5,
    min_score: Annotated[
        float | None,
        typer.Option(
            metavar="P",
            help="For a packed finder: leave out hits with a lower score; 0 leaves out none.",
        ),
    ] = None,
    retriever: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The retriever to search with. Default: the best one on the validation queries.",
        ),
    ] = None,
    queries: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A JSONL file with the keys `id` and `query` in each line.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where the hits of --queries go."),
    ] = None,
    overwrite: OverwriteOption = False,
) -> None:
    """Find the tools that a request needs."""
    from toolbank.search.finder import Finder
    from toolbank.search.folder import is_finder

    if (query is None) == (queries is None):
        raise typer.BadParameter(
            "Give a request, or --queries FILE.jsonl, and not both."
        )
    if (queries is None) != (out is None):
        raise typer.BadParameter("--queries FILE and --out FILE go together.")
    if query is not None and not query.strip():
        raise typer.BadParameter("The request is empty.")
    finder = None
    if is_finder(run):
        finder = Finder.open(run, retriever, one=True)
        if finder.packed:
            if query is None:
                raise typer.BadParameter(
                    "--queries is of a run; a packed finder takes one request."
                )
            _print_answer(finder, query, k, min_score)
            return
    if min_score is not None:
        raise typer.BadParameter("--min-score is of a packed finder.")
    from toolbank.search.run_search import (
        describe_lacks,
        find_dense,
        open_finder,
        open_searched,
        read_queries,
        write_hits,
    )
    from toolbank.system.outputs import is_stream

    requests: list[tuple[str, str]] = []
    if queries is not None and out is not None:
        requests = read_queries(run, queries, out, overwrite=overwrite)
    keep = None
    if finder is None and query is not None:
        finder, keep = open_searched(run, retriever)
    finder = finder or open_finder(run, retriever)
    if lacks := describe_lacks(run):
        print_message(lacks)
    print_message(
        f"Retriever: {finder.retriever.name} ({finder.retriever.config.score})"
        + ("" if retriever else ". Choose another with --retriever NAME.")
    )
    if query is not None:
        if hits := _search(finder, query, k):
            echo(_format_hits(hits))
        else:
            advice = "No tool fits at all. Say it in other words"
            if other := find_dense(run, finder.retriever.name):
                again = f"{command('search', run)} {shlex.quote(query)}"
                advice += f", or search by meaning:\n  {again} --retriever {other}"
            echo(advice if other else f"{advice}.")
        if keep is not None:
            keep()
    elif out is not None:
        write_hits(finder, requests, k, out, overwrite=overwrite)
        if not is_stream(out):
            echo(f"Wrote the hits of {count(len(requests), 'request')} to {out}")


def _print_answer(finder: Finder, query: str, k: int, min_score: float | None) -> None:
    """Print what a packed finder has for a request."""
    answer = finder.answer(query, k, min_score)
    (label,) = finder.retrievers
    print_message(f"by {label}; {finder.explain_scores(label)}")
    if answer.fits is not None:
        echo(f"fits: {_FITS[answer.fits]}")
    if not answer.hits:
        above = "" if min_score is None else f" with a score of at least {min_score:g}"
        echo(f"No tool is found{above}. Say it in other words.")
        return
    echo(_format_hits([(hit, ()) for hit in answer.hits]))


def _search(finder: Finder, query: str, k: int) -> list[tuple[Hit, list[str]]]:
    """The k best hits, each with the names of its twins, of which only the best is a hit."""
    from toolbank.search.finder import SEARCH_TIME

    first = find_first_twins(finder.tools)
    number_from_text, names = {}, defaultdict[int, list[str]](list)
    for tool, number in zip(finder.tools, first, strict=True):
        number_from_text[tool.name] = number
        names[number].append(tool.name)
    most = max(map(len, names.values()), default=1)
    best: dict[int, Hit] = {}
    with deadline.ending_within(SEARCH_TIME):
        hits = finder.rank([query], k * most)[0]
    for hit in hits:
        best.setdefault(number_from_text[hit.tool.name], hit)
    return [
        (hit, [name for name in names[number] if name != hit.tool.name])
        for number, hit in islice(best.items(), k)
    ]


def _format_hits(hits: Sequence[tuple[Hit, Sequence[str]]]) -> str:
    """A hit a line: score, name, summary, twins."""
    names = [one_line(hit.tool.name, _LONGEST_NAME) for hit, _ in hits]
    width = max(map(len, names), default=0)
    return "\n".join(
        f"{hit.score:7.3f}  {name:<{width}}  "
        f"{one_line(hit.tool.summary, _LONGEST_SUMMARY)}{_name_twins(twins)}".rstrip()
        for (hit, twins), name in zip(hits, names, strict=True)
    )


def _name_twins(twins: Sequence[str]) -> str:
    if not twins:
        return ""
    names = ", ".join(one_line(name, _LONGEST_NAME) for name in twins[:_TWINS])
    more = f" and {len(twins) - _TWINS:,} more" if len(twins) > _TWINS else ""
    return f" (or {names}{more})"
