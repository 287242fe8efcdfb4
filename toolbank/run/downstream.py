"""Train the same retrievers on two banks of one size, and test them on the same requests."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

from toolbank.bank.bank import Bank, QueryLabels
from toolbank.bank.records import Record
from toolbank.bank.split import SplitConfig
from toolbank.datasets.jsonl import JsonlConfig, read_labelled
from toolbank.evaluation import main_k
from toolbank.evaluation.figures import FEWEST
from toolbank.evaluation.paired_figures import FigureKind, PairedFigure
from toolbank.report.comparison import Downstream
from toolbank.requests.profile.copies import find_copies
from toolbank.retrievers.kind import RetrieverConfig, with_needs
from toolbank.run.folder import RunFolder
from toolbank.run.recipe import Recipe, RecipeFile
from toolbank.run.sweep import RecipeSweep, SweepRun, run_sweep, summarise_sweep
from toolbank.system.errors import InputError, ReplyPendingError
from toolbank.system.files import write_text
from toolbank.system.folders import is_run_folder
from toolbank.system.numbers import count
from toolbank.system.terminal import print_message


def choose_retrievers(
    recipe: Recipe, names: Sequence[str]
) -> tuple[list[RetrieverConfig], list[str]]:
    """Choose the named retrievers, or all that learn from requests and ask no model.

    Returns them, and notes on the others.

    Raises:
        InputError: there is no such retriever, or one that learns from requests.
    """
    labels = [config.label for config in recipe.retrievers]
    if unknown := [name for name in names if name not in labels]:
        raise InputError(
            f"--retriever {unknown[0]}: the recipe of A has {', '.join(labels)}."
        )
    chosen, unlearned, asking = [], [], []
    for config in recipe.retrievers:
        if names and config.label not in names:
            continue
        parts = with_needs([config], recipe.retrievers)
        if not any(one.needs_queries for one in parts):
            unlearned.append(config.label)
        elif config.asks and not names:
            asking.append(config.label)
        else:
            chosen.append(config)
    if not chosen:
        raise InputError(
            "No retriever of A's recipe learns from requests. Add tool2vec."
        )
    reasons = {
        "they do not learn from requests": unlearned,
        "they ask a model (name them with --retriever)": asking,
    }
    return chosen, [
        f"Not trained, since {why}: {', '.join(labels)}."
        for why, labels in reasons.items()
        if labels
    ]


def compare_downstream(
    recipe: RecipeFile,
    banks: Sequence[tuple[str, Bank]],
    on: Path,
    seeds: int,
    names: Sequence[str],
    folder: Path,
) -> tuple[Downstream, list[PairedFigure]]:
    """Train retrievers on two banks, and compare their recall on the requests of a file.

    This is a sweep over both banks and the seeds, in a folder of `folder`. Each seed draws the requests of the
    larger bank, splits off those for validation, and trains. Requests of the file with a copy in
    either bank are removed.

    Raises:
        InputError: the file has no usable request, the banks share no tool, or a retriever cannot
            be fitted.
        ReplyPendingError: a retriever waits for a batch.
    """
    base = recipe.recipe
    chosen, notes = choose_retrievers(base, names)
    file = read_labelled(on)
    if file.refusals:
        notes.append(
            f"{count(file.refusals, 'line')} of {file.name} without tools skipped."
        )
    sides = [_prepare(bank, banks[1 - row][1]) for row, (_, bank) in enumerate(banks)]
    tools = len(sides[0].tools)
    if missing := [
        len(bank.tools) - tools for _, bank in banks if len(bank.tools) > tools
    ]:
        notes.append(
            f"Only the {tools:,} tools of both banks count; {sum(missing):,} are skipped."
        )
    copies: dict[str, int] = {}
    kept = list(file.queries)
    for name, bank in banks:
        texts = [*(one.query for one in bank.queries), *(one.ask for one in bank.asks)]
        limits, encoder = base.profile.copies, base.plain_encoder
        copied = find_copies([one.query for one in kept], texts, limits, encoder)
        kept = [query for place, query in enumerate(kept) if place not in copied]
        copies[name] = len(copied)
    fresh = len(kept)
    index = sides[0].index
    kept = [query for query in kept if all(name in index for name in query.tools)]
    n, asks = (
        min(map(len, of))
        for of in zip(*((one.queries, one.asks) for one in sides), strict=True)
    )
    if not (kept and tools and n):
        raise InputError(
            f"{on}: {len(kept):,} requests are left to test on, {tools:,} tools are in both banks, "
            f"and {n:,} requests to train on. None of these may be 0."
        )
    if len(kept) < FEWEST:
        print_message(
            f"{on}: {count(len(kept), 'request')} to test on; below {FEWEST} there is no verdict."
        )
    lines = [one.model_dump_json(include={"id", "query", "tools"}) for one in kept]
    needed = tuple(with_needs(chosen, base.retrievers))
    # Each file and choice of retrievers has a sweep; sweeps copy what they have in common.
    shaped = [*lines, *(one.model_dump_json() for one in (*needed, base.evaluate))]
    digest = hashlib.sha256("\n".join(shaped).encode(errors="replace")).hexdigest()
    place = (folder / f"sweep-{file.name}-{digest[:8]}").resolve()
    tested = _write_lines(place / f"{file.name}.jsonl", lines)
    runs = []
    for side, bank in zip("AB", sides, strict=True):
        for seed in range(base.seed, base.seed + seeds):
            name = f"{side}-seed{seed}"
            data = place / "data" / name
            for kind, records in _draw(bank, seed, n, asks).items():
                rows = (one.model_dump_json() for one in records)
                _write_lines(data / f"{kind}.jsonl", rows)
            made = Recipe(
                name=name,
                domain=base.domain_name,
                seed=seed,
                language=base.language,
                dataset=JsonlConfig(type="jsonl", path=data, ordered=True),
                split=SplitConfig(test=0, validation=base.split.validation),
                labels="first",
                baselines=False,
                retrievers=needed,
                evaluate=base.evaluate.model_copy(update={"on": (tested,)}),
            )
            own = replace(recipe, recipe=made, own=False, listed=len(needed))
            runs.append(SweepRun(side, own, RunFolder(place / name)))
    earlier = (
        RunFolder(path)
        for path in sorted(folder.glob("sweep-*/*"))
        if is_run_folder(path)
    )
    name = f"{banks[0][0]} and {banks[1][0]}"
    sweep = RecipeSweep(name, place, tuple(runs), tuple(earlier))
    for done in run_sweep(sweep, until="evaluate"):
        if done.waiting:
            raise ReplyPendingError(done.waiting)
    result = summarise_sweep(sweep)
    k = main_k(base.evaluate.ks)
    means = {
        (one.setting, one.retriever): one.mean
        for one in result.figures
        if (one.metric, one.k) == ("recall", k)
    }
    labels = {one.label for one in chosen}
    figures = [
        PairedFigure(
            FigureKind("Downstream", f"R@{k} of {one.retriever}", "share", "higher"),
            means["A", one.retriever],
            means["B", one.retriever],
            one.n,
            one.low,
            one.high,
            one.p,
        )
        for one in result.tests
        if one.retriever == one.against and one.retriever in labels
    ]
    described = Downstream(
        file.name, len(kept), copies, fresh - len(kept), seeds, n, asks, notes
    )
    return described, figures


def _write_lines(path: Path, lines: Iterable[str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, "".join(f"{line}\n" for line in lines))
    return path


def _prepare(bank: Bank, other: Bank) -> Bank:
    """The bank with verified labels and the tools of both, without excluded requests."""
    names = set(other.tool_names)
    tools = tuple(
        sorted(
            (tool for tool in bank.tools if tool.name in names),
            key=lambda tool: tool.name,
        )
    )
    queries = [
        query.model_copy(update={"tools": tuple(found.needed) or query.tools})
        for query in bank.queries
        if not (found := bank.verified.get(query.id, QueryLabels())).aside
    ]
    made = Bank(tools, tuple(queries), {"ordered": True}, bank.asks)
    return made.without_missing_tools()


def _draw(bank: Bank, seed: int, n: int, asks: int) -> Mapping[str, Sequence[Record]]:
    """Draw so many requests and asks; returns the files of a dataset."""
    random = Random(f"{seed}:downstream")
    queries, own = (
        [rows[place] for place in sorted(random.sample(range(len(rows)), size))]
        for rows, size in ((bank.queries, n), (bank.asks, asks))
    )
    unsplit = [query.model_copy(update={"split": None}) for query in queries]
    return {"tools": bank.tools, "queries": unsplit} | ({"asks": own} if own else {})
