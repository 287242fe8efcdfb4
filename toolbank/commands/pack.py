"""`toolbank pack`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from toolbank.commands.options import RunArgument, echo
from toolbank.system.errors import InputError
from toolbank.system.numbers import count
from toolbank.system.terminal import command, print_message

if TYPE_CHECKING:
    from toolbank.encoders.config import Precision
    from toolbank.retrievers.calibration_requests import CalibrationRequests


def pack(
    run: RunArgument,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="The folder of the packed finder.")
    ],
    retriever: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A retriever to pack; repeatable. Searches use the first. Default: the best one on the validation queries.",
        ),
    ] = None,
    with_requests: Annotated[
        bool,
        typer.Option(
            "--with-requests",
            help="Include the bank's requests, which may be private.",
        ),
    ] = False,
    int8: Annotated[
        bool, typer.Option("--int8", help="Pack networks in 8 bits: smaller, faster.")
    ] = False,
    fp32: Annotated[
        bool,
        typer.Option(
            "--fp32", help="Pack networks in 32 bits, as they were trained (default)."
        ),
    ] = False,
    both: Annotated[
        bool, typer.Option("--both", help="Pack networks in 8 bits and in 32 bits.")
    ] = False,
) -> None:
    """Export a run as a small search index that needs no PyTorch."""
    from toolbank.search.catalogue import RequestIndex
    from toolbank.search.finder import Finder
    from toolbank.search.folder import (
        check_free,
        read_manifest,
        read_uncalibrated,
        version_folder,
    )
    from toolbank.search.run_search import (
        Calibrator,
        describe_lacks,
        open_finder,
        read_requests_of,
    )

    if int8 + fp32 + both > 1:
        raise typer.BadParameter("Give one of --int8, --fp32 and --both.")
    precisions: tuple[Precision, ...] = ("int8",) if int8 else ("fp32",)
    if both:
        precisions = ("fp32", "int8")
    check_free(out)
    if lacks := describe_lacks(run):
        print_message(lacks)
    labels: list[str | None] = [*retriever] if retriever else [None]
    finders = [open_finder(run, label) for label in labels]
    if any(finder.packed for finder in finders):
        raise InputError(f"{run}: packed already. Pack the run that it was made from.")
    fitted = {finder.retriever.name: finder.retriever for finder in finders}
    requests = RequestIndex.of(read_requests_of(run)) if with_requests else None
    calibrator = Calibrator(run)
    finder = Finder(fitted, finders[0].tools, requests)
    version = finder.pack(out, calibrator, precisions)
    place = version_folder(out, version)
    reasons = read_uncalibrated(place, read_manifest(place))
    for line in _describe_calibration(calibrator.requests, reasons):
        print_message(line)
    tools = count(len(finders[0].tools), "tool")
    echo(f"Packed {', '.join(fitted)} of {tools} to {out} (version {version})")
    echo(f'  Search it: {command("search", out)} "..."')


def _describe_calibration(
    requests: CalibrationRequests, reasons: Mapping[str, str]
) -> Iterator[str]:
    """What the retrievers were calibrated on, and why those with `reasons` were not."""
    from toolbank.retrievers.calibration_requests import REMEDY

    yield from requests.warn_of_near()
    if skipped := requests.describe_skipped():
        yield skipped
    if requests.origin:
        yield f"Calibrated on {requests.origin}."
    for reason in dict.fromkeys(reasons.values()):
        labels = ", ".join(label for label, why in reasons.items() if why == reason)
        yield f"{labels}: scores only rank the hits, because {reason}. {REMEDY}"
