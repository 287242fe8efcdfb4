"""`toolbank compare`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from toolbank.bank.bank import Bank
from toolbank.commands.options import SetOption, complain, echo
from toolbank.datasets import DATASETS, find_format
from toolbank.datasets.jsonl import read_query_lines
from toolbank.encoders import load_encoder
from toolbank.encoders.sentence import SentenceConfig
from toolbank.system.errors import InputError
from toolbank.system.folders import is_run_folder
from toolbank.system.terminal import align, one_line

if TYPE_CHECKING:
    from toolbank.encoders.base import Encoder
    from toolbank.report.comparison import BankComparison
    from toolbank.requests.quality.measure import Quality
    from toolbank.run.comparison import ComparisonRequest


_LONGEST = 200


def measure_banks(
    banks: Sequence[tuple[str, Bank]], encoder: Encoder | None, seed: int
) -> list[tuple[str, Quality]]:
    """Measure each bank by itself. Without an encoder, there is no dispersion."""
    from toolbank.requests.quality.measure import add_dispersion, measure_quality

    found = []
    for name, bank in banks:
        quality = measure_quality(bank, seed)
        if encoder is not None:
            label = encoder.config.label
            quality = add_dispersion(quality, bank, encoder.encode_queries, label, seed)
        found.append((name, quality))
    return found


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
        complain(
            f"without dispersion and topics, because no encoder could be loaded: {error}"
        )
        return None


def _name(paths: Sequence[Path]) -> list[str]:
    """The last part of each path, or the whole path if another one ends the same."""
    last = [path.stem if path.is_file() else path.resolve().name for path in paths]
    return [
        name if last.count(name) == 1 else str(path)
        for name, path in zip(last, paths, strict=True)
    ]


_WIDEST = 16
_NOTHING = "\u2013"


def format_banks(banks: Sequence[tuple[str, Quality]]) -> str:
    """Format a table of all figures side by side, by their keys in the JSON."""
    figures = [dict(_flatten(quality.as_json())) for _, quality in banks]
    head = ["", *(one_line(name, _WIDEST) for name, _ in banks)]
    rows = [
        [one_line(key, 60), *(one.get(key, _NOTHING) for one in figures)]
        for key in dict.fromkeys(chain(*figures))
    ]
    return "\n".join(align([head, *rows], right=range(1, len(head))))


def _flatten(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """The numbers of a JSON object, by their paths; lists have none, but by `kind`."""
    if isinstance(value, dict):
        for key, one in value.items():
            if key != "commonest":
                yield from _flatten(one, f"{path} {key}".strip())
    elif isinstance(value, list | tuple):
        for one in value:
            if isinstance(one, dict) and "kind" in one:
                yield from _flatten(one, f"{path} {one['kind']}")
    elif isinstance(value, float):
        yield path, f"{value:.3f}"
    elif isinstance(value, int):
        yield path, f"{value:,}"


_COMPARISONS = "comparisons"


def compare_two(
    paths: Sequence[Path],
    banks: Sequence[tuple[str, Bank]],
    request: ComparisonRequest,
    encoder: Encoder | None,
    settings: Sequence[str],
) -> tuple[BankComparison, Path]:
    """Compare two banks, and write the comparison; returns it and its page.

    `request.folder` is where the folder of the comparison is made.

    Raises:
        InputError: a file can't be used, or a retriever can't be fitted.
        ReplyPendingError: the verdicts come in a batch.
    """
    from toolbank.report.comparison import write_comparison
    from toolbank.run.comparison import (
        COMPARISON,
        ComparedPlace,
        compare_places,
        name_comparison,
        name_files,
    )
    from toolbank.run.recipe import load_recipe, recipe_of_dataset
    from toolbank.system.folders import claim_folder

    first = paths[0]
    recipe = None
    if request.on or request.judges:
        if first.is_file():
            raise InputError(
                f"{first}: a file has no tools to train on. Give a run first."
            )
        load = load_recipe if is_run_folder(first) else recipe_of_dataset
        recipe = load(str(first), settings)
    a, b = (
        ComparedPlace(name, path, bank)
        for path, (name, bank) in zip(paths, banks, strict=True)
    )
    folder = request.folder / name_comparison(a, b)
    claim_folder(folder, COMPARISON)
    request = replace(request, folder=folder, recipe=recipe)
    embed = encoder.encode_queries if encoder else None
    found = compare_places(a, b, request, embed)
    return found, write_comparison(found, folder, name_files(request))


def compare(
    banks: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN|DIR|FILE",
            help="Run folders, dataset folders of any format, or JSONL files with a query and "
            "its tools per line. Two are compared with intervals, more side by side.",
        ),
    ],
    on: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Train the retrievers of the first bank's recipe on both banks, and test them on "
            "the requests of this file, with `query` and `tools` in each line.",
        ),
    ] = None,
    seeds: Annotated[
        int,
        typer.Option(metavar="N", min=1, help="Number of seeds of these trainings."),
    ] = 3,
    retriever: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Train only this retriever; repeatable."),
    ] = None,
    judge: Annotated[
        bool, typer.Option("--judge", help="Ask the judge of the first bank's recipe.")
    ] = False,
    settings: SetOption = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Folder of comparisons (default: comparisons beside A)."
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
            help="Embed queries to measure their dispersion and find topics.",
        ),
    ] = True,
) -> None:
    """Compare banks: which is better, by how much, and how sure."""
    import json

    from toolbank.run.comparison import ComparisonRequest

    if len(banks) != 2 and (on or retriever or judge or settings or out):
        raise InputError(
            "--on, --retriever, --judge, --set and --out compare two banks. Give just two."
        )
    if retriever and not on:
        raise InputError("--retriever: nothing is trained without --on FILE.")
    read = [*zip(_name(banks), map(read_bank, banks), strict=True)]
    loaded = _load() if encoder else None
    found = measure_banks(read, loaded, seed)
    content: dict[str, Any] = {
        "seed": seed,
        "banks": [{"name": name, **one.as_json()} for name, one in found],
    }
    texts = []
    if len(banks) == 2:
        from toolbank.report.comparison import format_comparison

        home = banks[0].resolve().parent if is_run_folder(banks[0]) else Path.cwd()
        folder = out or home / _COMPARISONS
        request = ComparisonRequest(folder, seed, on, seeds, retriever or (), judge)
        comparison, page = compare_two(banks, read, request, loaded, settings or ())
        content["comparison"] = comparison.as_json()
        texts = [format_comparison(comparison), f"The page: {page}"]
    if as_json:
        typer.echo(json.dumps(content, indent=1))
    else:
        echo("\n\n".join(texts or [format_banks(found)]))
