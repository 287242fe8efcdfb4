"""`toolbank pack`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from toolbank.commands.options import RunArgument, echo
from toolbank.system.numbers import count
from toolbank.system.shell import command
from toolbank.system.terminal import print_message

if TYPE_CHECKING:
    from toolbank.encoders.encoder import Precision


def pack(
    run: RunArgument,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="The folder of the packed finder.")
    ],
    retriever: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Repeatable, the first is searched with; if not given, the best on the "
            "validation queries.",
        ),
    ] = None,
    with_requests: Annotated[
        bool,
        typer.Option(
            "--with-requests",
            help="Put the bank's requests in, too; they may be private.",
        ),
    ] = False,
    int8: Annotated[
        bool, typer.Option("--int8", help="Networks in 8 bits: smaller, faster.")
    ] = False,
    fp32: Annotated[
        bool, typer.Option("--fp32", help="Networks in 32 bits, as they were trained.")
    ] = False,
    both: Annotated[bool, typer.Option("--both", help="Networks in both.")] = False,
) -> None:
    """Write what is needed to search and serve, and nothing else, without torch."""
    from toolbank.packed.layout import list_uncalibrated
    from toolbank.packed.write import check_packable, write_packed
    from toolbank.search import (
        calibrator,
        describe_lacks,
        open_finder,
        read_requests_of,
    )

    if int8 + fp32 + both > 1:
        raise typer.BadParameter("Give one of --int8, --fp32 and --both.")
    precisions: tuple[Precision, ...] = ("int8",) if int8 else ("fp32",)
    if both:
        precisions = ("fp32", "int8")
    check_packable(out)
    if lacks := describe_lacks(run):
        print_message(lacks)
    labels: list[str | None] = [*retriever] if retriever else [None]
    finders = [open_finder(run, label) for label in labels]
    packed = {finder.retriever.name: finder.retriever for finder in finders}
    requests = read_requests_of(run) if with_requests else None
    version = write_packed(
        out, packed, finders[0].tools, requests, calibrator(run), precisions
    )
    for label in list_uncalibrated(out, version):
        print_message(
            f"{label}: too few validation queries of people's wording to say what its scores mean; "
            "they only order the hits, and none is refused for a low one"
        )
    tools = count(len(finders[0].tools), "tool")
    echo(f"Packed {', '.join(packed)} of {tools} to {out} (version {version})")
    echo(f'  Search it: {command("search", out)} "..."')
