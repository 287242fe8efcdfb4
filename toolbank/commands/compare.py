"""`toolbank compare`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from toolbank.bank.bank import Bank
from toolbank.commands.options import SetOption, complain, echo
from toolbank.datasets import DATASETS, find_format
from toolbank.datasets.jsonl import read_labelled, read_query_lines
from toolbank.encoders import load_encoder
from toolbank.encoders.sentence import SentenceConfig
from toolbank.system.errors import InputError
from toolbank.system.folders import is_run_folder
from toolbank.system.terminal import one_line

if TYPE_CHECKING:
    from toolbank.encoders.base import Encoder

_LONGEST = 200


def read_bank(path: Path) -> Bank:
    """Read the bank of a run, the dataset in a folder, or the queries of a JSONL file.

    Raises:
        InputError: the path is none of these, is damaged, or has no query.
    """
    if path.is_file():
        bank = Bank((), tuple(read_query_lines(path)))
        complain(
            f"{path}: queries without tools, so figures of tools are missing. Put both into a "
            "folder, as tools.jsonl and queries.jsonl."
        )
    elif (path / "bank.json").is_file():
        bank = Bank.load(path)
    elif (path / "bank").is_dir() or is_run_folder(path):
        bank = Bank.load(path / "bank")
    else:
        config = find_format(path)
        dataset = DATASETS.load(config.type).read(config)
        for reason, number in sorted(dataset.left_out.counts.items()):
            complain(f"{path}: {number:,} skipped: {one_line(reason, _LONGEST)}")
        bank = Bank(dataset.tools, dataset.queries, {}, dataset.asks)
    if not bank.queries:
        raise InputError(f"{path}: it has no query that needs a tool.")
    return bank


def _load() -> Encoder | None:
    try:
        return load_encoder(SentenceConfig())
    except InputError as error:
        complain(f"without cosines, because no encoder could be loaded: {error}")
        return None


def _name(a: Path, b: Path) -> tuple[str, str]:
    """The last part of each path, or the whole paths if both end the same."""
    first, second = (
        path.stem if path.is_file() else path.resolve().name for path in (a, b)
    )
    return (str(a), str(b)) if first == second else (first, second)


_BANK = (
    "A run folder, a dataset folder of any format, or a JSONL file with a query and its "
    "tools per line."
)


def compare(
    a: Annotated[Path, typer.Argument(metavar="A", help=_BANK)],
    b: Annotated[
        Path, typer.Argument(metavar="B", help="The bank to compare with it.")
    ],
    on: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Train the retrievers of A's recipe on both banks, and test them on "
            "the requests of this file, with `query` and `tools` in each line.",
        ),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Number of seeds of these trainings (default: 3)."
        ),
    ] = None,
    retriever: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Train only this retriever; repeatable."),
    ] = None,
    judge: Annotated[
        bool, typer.Option("--judge", help="Ask the judge of A's recipe.")
    ] = False,
    settings: SetOption = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder of comparisons (default: comparisons next to A).",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print all figures as JSON.")
    ] = False,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the samples.")] = 0,
    encoder: Annotated[
        bool,
        typer.Option(
            "--encoder/--no-encoder",
            help="Embed requests to compare their cosines.",
        ),
    ] = True,
) -> None:
    """Compare two banks: which is better, by how much, and how sure."""
    import json

    from toolbank.report.comparison import format_comparison, write_comparison
    from toolbank.run.comparison import (
        COMPARISON,
        ComparedPlace,
        ComparisonRequest,
        compare_places,
        name_comparison,
    )
    from toolbank.run.downstream import choose_retrievers
    from toolbank.run.recipe import load_recipe, recipe_of_dataset
    from toolbank.system.folders import claim_folder

    if (retriever or seeds) and not on:
        option = "--retriever" if retriever else "--seeds"
        raise InputError(f"{option}: nothing is trained without --on FILE.")
    if settings and not (on or judge):
        raise InputError("--set: no recipe is used without --on FILE or --judge.")
    names = _name(a, b)
    first, second = (
        ComparedPlace(name, path, read_bank(path))
        for name, path in zip(names, (a, b), strict=True)
    )
    recipe = None
    if on or judge:
        if a.is_file():
            raise InputError(f"{a}: a file has no tools to train on. Give a run as A.")
        if on and not second.bank.tools:
            raise InputError(
                f"{b}: it has no tools, so nothing can be trained on it (--on). Give a folder with "
                "tools.jsonl and queries.jsonl."
            )
        load = load_recipe if is_run_folder(a) else recipe_of_dataset
        recipe = load(str(a), settings or ())
    if on and recipe:
        choose_retrievers(recipe.recipe, retriever or ())
        read_labelled(on)
    home = a.resolve().parent if is_run_folder(a) else Path.cwd()
    folder = (out or home / "comparisons") / name_comparison(first, second)
    claim_folder(folder, COMPARISON)
    request = ComparisonRequest(
        folder, seed, on, seeds or 3, retriever or (), judge, recipe
    )
    loaded = _load() if encoder else None
    embed = loaded.encode_queries if loaded else None
    found = compare_places(first, second, request, embed)
    page = write_comparison(found, folder)
    if as_json:
        typer.echo(json.dumps(found.as_json(), indent=1))
    else:
        echo(f"{format_comparison(found)}\n\nThe page: {page}")
