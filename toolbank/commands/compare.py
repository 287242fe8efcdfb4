"""`toolbank compare`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
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


_NOTHING = "\u2013"
_WIDEST = 16
_LONGEST_LABEL = 100
_SHOWN = 5


@dataclass(frozen=True)
class _Row:
    """A figure: its path of fields and keys in a `Quality`, and its format."""

    label: str
    path: str
    form: str = ".2f"

    def show(self, quality: Quality) -> str:
        value: Any = quality
        for part in self.path.split("."):
            if value is None:
                break
            value = (
                value.get(int(part))
                if isinstance(value, dict)
                else getattr(value, part)
            )
        return _NOTHING if value is None else format(value, self.form).rstrip("%")


def _count(label: str, path: str) -> _Row:
    return _Row(label, path, ",")


def _share(label: str, path: str) -> _Row:
    return _Row(f"{label}, %", path, ".1%")


_BEFORE_WORDS = {
    "What there is": (
        _count("tools", "tools"),
        _count("requests", "requests"),
        _count("asks for one tool", "asks"),
        _Row("tools a request, mean", "sets.mean"),
    ),
    "Coverage": (
        _share("tools used at least once", "coverage.used.1"),
        _share("tools used at least 5 times", "coverage.used.5"),
        _share("tools used at least 20 times", "coverage.used.20"),
        _Row("Gini of uses", "coverage.gini"),
        _count("distinct sets of tools", "sets.distinct"),
        _share("the same, of requests", "sets.share"),
    ),
    "Variety": (
        _Row("distinct-1", "variety.distinct.1"),
        _Row("distinct-2", "variety.distinct.2"),
        _Row("distinct-3", "variety.distinct.3"),
        _Row("self-BLEU", "variety.self_bleu"),
        _share("near-duplicates", "duplicates.share"),
        _share("with one of the 10 commonest openings", "openings.share"),
        _Row("cosine of two", "dispersion.cosine"),
        _Row("cosine with the nearest", "dispersion.nearest"),
        _Row("topics of one size as diverse", "dispersion.effective", ".1f"),
    ),
}
_NAMES = (
    _share("requests with an identifier", "leaks.identifier"),
    _share("that say the name of a tool they need", "leaks.name"),
)
_AFTER_WORDS = {
    "How it reads": (
        _share("changed by polish", "polish.changed"),
        _share("words of steps in drafts", "polish.before.sequence"),
        _share("the same in requests", "polish.after.sequence"),
        _share("several commands in drafts", "polish.before.commands"),
        _share("the same in requests", "polish.after.commands"),
        _Row("reading grade, median", "reading.median", ".1f"),
    ),
    "Verified labels": (
        _count("requests", "labels.requests"),
        _share("just their first labels", "labels.same"),
        _share("of the first labels, needed", "labels.precision"),
        _share("of what is needed, first labels", "labels.recall"),
        _share("set aside", "labels.aside"),
    ),
}


def format_banks(banks: Sequence[tuple[str, Quality]]) -> str:
    """Format a table of figures; below it, each bank's commonest openings and its topics."""
    parts = list(_show([quality for _, quality in banks]))
    head = ["", *(one_line(name, _WIDEST) for name, _ in banks)]
    cells = [[f"  {label}", *row] for _, rows in parts for label, row in rows]
    table = iter(align([head, *cells], right=range(1, len(head))))
    lines = [next(table)]
    for title, rows in parts:
        lines += ["", title, *islice(table, len(rows))]
    for name, quality in banks:
        lines += ["", *_describe_texts(one_line(name, _LONGEST_LABEL), quality)]
    return "\n".join(lines)


def _show(
    banks: Sequence[Quality],
) -> Iterator[tuple[str, list[tuple[str, list[str]]]]]:
    """Titles with their rows of labels and cells. Verified labels only if there are some."""
    for title, rows in _BEFORE_WORDS.items():
        yield title, _fill(rows, banks)
    kinds = dict.fromkeys(one.kind for bank in banks for one in bank.overlap)
    overlaps = [row for kind in kinds for row in _compare_words(kind, banks)]
    yield "Words of the tools", [*overlaps, *_fill(_NAMES, banks)]
    for title, rows in _AFTER_WORDS.items():
        if title != "Verified labels" or any(bank.labels for bank in banks):
            yield title, _fill(rows, banks)


def _fill(
    rows: Sequence[_Row], banks: Sequence[Quality]
) -> list[tuple[str, list[str]]]:
    return [(row.label, [row.show(bank) for bank in banks]) for row in rows]


def _compare_words(
    kind: str, banks: Sequence[Quality]
) -> Iterator[tuple[str, list[str]]]:
    found = [
        next((one for one in bank.overlap if one.kind == kind), None) for bank in banks
    ]
    name = [f"{one.name:.2f}" if one else _NOTHING for one in found]
    own = [f"{one.own:.2f}" if one else _NOTHING for one in found]
    name_of_kind = one_line(kind, _WIDEST)
    yield f"{name_of_kind}: of their tools' names, said", name
    yield f"{name_of_kind}: of their words, the tools' own", own


def _describe_texts(name: str, quality: Quality) -> Iterator[str]:
    if quality.openings:
        commonest = list(quality.openings.commonest.items())[:_SHOWN]
        openings = (
            f"{one_line(text, 40)} ({100 * share:.1f} %)" for text, share in commonest
        )
        yield f"{name} opens with: {', '.join(openings)}"
    if quality.dispersion:
        yield f"{name} is about:"
        for topic in quality.dispersion.topics:
            words = one_line(topic.name, 36)
            example = one_line(topic.example, _LONGEST_LABEL - 50)
            yield f"  {100 * topic.share:>4.1f} %  {words:<36}  {example}"


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
    """Compare banks: coverage, variety, wording, price, labels, and what is learnt from them."""
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
