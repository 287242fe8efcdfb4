"""Train the same retrievers on two banks of one size, and test them on the same requests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
from tqdm import tqdm

from toolbank.bank.bank import Bank, QueryLabels
from toolbank.config.base import shape
from toolbank.datasets.jsonl import read_labelled
from toolbank.encoders.location import encoder_identity
from toolbank.evaluation import EvaluateConfig, main_k
from toolbank.evaluation.evaluate import measure
from toolbank.evaluation.paired import compare_over_seeds
from toolbank.evaluation.paired_figures import FigureKind, PairedFigure
from toolbank.evaluation.sets import make_set
from toolbank.report.comparison import Downstream
from toolbank.requests.profile.copies import find_copies
from toolbank.retrievers import load_retriever
from toolbank.retrievers.kind import RetrieverConfig
from toolbank.run.fit import Fit, fit_together
from toolbank.run.folder import RunFolder
from toolbank.run.recipe import Recipe
from toolbank.run.stages.fit import FitStage
from toolbank.system.consent import require_consent
from toolbank.system.errors import InputError
from toolbank.system.extras import naming_extras
from toolbank.system.version import __version__


def choose_retrievers(
    recipe: Recipe, names: Sequence[str]
) -> tuple[list[RetrieverConfig], list[str]]:
    """Choose the named retrievers, or all that learn from requests and ask no model.

    Returns them, and notes on the others.

    Raises:
        InputError: there is no such retriever, or one that learns from requests.
    """
    by_label = {config.label: config for config in recipe.retrievers}
    if unknown := [name for name in names if name not in by_label]:
        raise InputError(
            f"--retriever {unknown[0]}: the recipe of A has {', '.join(by_label)}."
        )

    def learns(config: RetrieverConfig) -> bool:
        return config.needs_queries or any(
            learns(by_label[one]) for one in config.needs
        )

    chosen, notes = [], []
    for config in recipe.retrievers:
        if names and config.label not in names:
            continue
        if not learns(config):
            notes.append(f"{config.label} does not learn from requests.")
        elif config.asks and not names:
            notes.append(f"{config.label} asks a model; name it with --retriever.")
        else:
            chosen.append(config)
    if not chosen:
        raise InputError(
            "No retriever of A's recipe learns from requests. Add tool2vec."
        )
    return chosen, notes


def compare_downstream(
    recipe: Recipe,
    banks: Sequence[tuple[str, Bank]],
    on: Path,
    seeds: int,
    names: Sequence[str],
    cache: Path,
) -> tuple[Downstream, list[PairedFigure]]:
    """Train retrievers on two banks, and compare their recall on the requests of a file.

    Each seed draws the requests of the larger bank, splits off those for validation, and trains.
    Requests of the file with a copy in either bank are removed. Fitted retrievers stay in `cache`.

    Raises:
        InputError: the file has no usable request, the banks share no tool, or a retriever cannot
            be fitted.
    """
    chosen, notes = choose_retrievers(recipe, names)
    file = read_labelled(on)
    sides = [_prepare(bank, banks[1 - row][1]) for row, (_, bank) in enumerate(banks)]
    tools = len(sides[0].tools)
    if missing := [
        len(bank.tools) - tools for _, bank in banks if len(bank.tools) > tools
    ]:
        notes.append(
            f"Only the {tools:,} tools of both banks count; {sum(missing):,} are left out."
        )
    copies: dict[str, int] = {}
    kept = list(file.queries)
    for name, bank in banks:
        texts = [*(one.query for one in bank.queries), *(one.ask for one in bank.asks)]
        limits, encoder = recipe.profile.copies, recipe.plain_encoder
        copied = find_copies([one.query for one in kept], texts, limits, encoder)
        kept = [query for place, query in enumerate(kept) if place not in copied]
        copies[name] = len(copied)
    fresh = len(kept)
    kept = [
        query for query in kept if any(name in sides[0].index for name in query.tools)
    ]
    n, asks = (
        min(map(len, of))
        for of in zip(*((one.queries, one.asks) for one in sides), strict=True)
    )
    if not (kept and tools and n):
        raise InputError(
            f"{on}: {len(kept):,} requests are left to test on, {tools:,} tools are in both banks, "
            f"and {n:,} requests to train on. None of these may be 0."
        )
    config = EvaluateConfig(ks=recipe.evaluate.ks)
    k = main_k(config.ks)
    values = np.zeros((2, len(chosen), seeds, len(kept)))
    rounds = [
        (seed, row)
        for seed in range(recipe.seed, recipe.seed + seeds)
        for row in (0, 1)
    ]
    for seed, row in tqdm(rounds, "train", unit="bank", disable=None):
        bank = _draw(sides[row], recipe, seed, n, asks)
        folder = _fit_all(bank, recipe, chosen, seed, cache)
        tested = make_set(file.name, bank, kept)
        for place, one in enumerate(chosen):
            retriever = load_retriever(folder.models / one.label)
            with naming_extras():
                tried = measure(retriever, tested, config)
            column = tried.metrics(config).index(("recall", k))
            values[row, place, seed - recipe.seed] = tried.values[:, column]
    figures = []
    for one, (a, b) in zip(chosen, values.swapaxes(0, 1), strict=True):
        found = compare_over_seeds(b - a, seed=recipe.seed)
        kind = FigureKind("Downstream", f"R@{k} of {one.label}", "share", "higher")
        means = float(a.mean()), float(b.mean())
        ends = found.low, found.high, found.p
        figures.append(PairedFigure(kind, *means, found.n, *ends))
    described = Downstream(
        file.name, len(kept), copies, fresh - len(kept), seeds, n, asks, notes
    )
    return described, figures


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


def _draw(bank: Bank, recipe: Recipe, seed: int, n: int, asks: int) -> Bank:
    """Draw a training set; both banks have the same positions in validation."""
    random = Random(f"{seed}:downstream")
    held_out = set(random.sample(range(n), round(recipe.split.validation * n)))
    drawn = sorted(random.sample(range(len(bank.queries)), n))
    queries = (
        bank.queries[row].model_copy(
            update={"split": "validation" if place in held_out else "train"}
        )
        for place, row in enumerate(drawn)
    )
    own = tuple(
        bank.asks[row] for row in sorted(random.sample(range(len(bank.asks)), asks))
    )
    return replace(bank, queries=tuple(queries), asks=own)


def _fit_all(
    bank: Bank,
    recipe: Recipe,
    chosen: Sequence[RetrieverConfig],
    seed: int,
    cache: Path,
) -> RunFolder:
    """Fit what is not fitted yet, in a folder named after all that shapes it."""
    needed = list(_close(chosen, recipe))
    records = [bank.tools, bank.queries, bank.asks]
    content = [
        [one.model_dump(mode="json") for of in records for one in of],
        [shape(config) for config in needed],
        [encoder_identity(one) for config in needed for one in config.encoders],
        seed,
        __version__,
    ]
    key = hashlib.sha256(
        json.dumps(content, sort_keys=True).encode(errors="replace")
    ).hexdigest()
    folder = RunFolder(cache / key[:16])
    if not (folder.bank / "bank.json").is_file():
        bank.save(folder.bank)
    for config in needed:
        target = folder.models / config.label
        if target.is_dir():
            continue
        stage = FitStage(recipe, folder, config)
        stage.check()
        require_consent(stage.sends(), stage.name)
        stage.prepare()
        checkpoints = folder.checkpoints / config.label
        retriever = fit_together(
            Fit(config, folder.path.resolve(), seed, checkpoints.resolve())
        )
        with folder.making(target) as made:
            retriever.save(made)
    return folder


def _close(
    chosen: Sequence[RetrieverConfig], recipe: Recipe
) -> Iterator[RetrieverConfig]:
    """The retrievers with those that they build on, in the recipe's order."""
    labels = {config.label for config in chosen}
    for config in reversed(recipe.retrievers):
        if config.label in labels:
            labels.update(config.needs)
    return (config for config in recipe.retrievers if config.label in labels)
