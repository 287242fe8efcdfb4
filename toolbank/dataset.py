"""The stage that takes the bank from a dataset of others."""

from __future__ import annotations

from collections import Counter
from importlib import metadata
from typing import Any

import toolbank
from toolbank.bank import write_queries, write_tools
from toolbank.errors import InputError
from toolbank.files import sha256_file, write_json
from toolbank.folder import RunFolder
from toolbank.loaders.config import DatasetConfig
from toolbank.recipe import Recipe
from toolbank.split import draw_withheld, split_dataset
from toolbank.stage import Outcome, read_settings


def dataset_depends(recipe: Recipe, _: RunFolder) -> dict[str, Any]:
    """What the bank follows from: the files by content, wherever they lie."""
    config = _config(recipe)
    return {
        "dataset": read_settings(config, "path", "tools"),
        "files": _hash_files(config),
        "domain": recipe.domain_name,
        "split": read_settings(recipe.split),
        "seed": recipe.seed,
        "toolbank": toolbank.__version__,
    }


def load_dataset(recipe: Recipe, folder: RunFolder) -> Outcome:
    """Write the bank of a dataset.

    Raises:
        InputError: a file is missing or broken, or no query is left to train on.
    """
    from toolbank.loaders.datasets import read_dataset

    config = _config(recipe)
    dataset = read_dataset(config)
    names = [tool.name for tool in dataset.tools]
    withheld = draw_withheld(names, recipe.split, recipe.seed)
    queries = split_dataset(dataset.queries, recipe.split, recipe.seed, withheld)
    splits = Counter(query.split for query in queries)
    if not splits["train"]:
        raise InputError(
            f"split: of {len(queries)} queries none is left to train on. Hold back smaller "
            "shares, or withhold fewer tools."
        )
    files = [folder.bank / f"{name}.parquet" for name in ("tools", "queries")]
    write_tools(files[0], dataset.tools)
    write_queries(files[1], queries)
    info = folder.bank / "bank.json"
    write_json(
        info,
        {
            "layout": 1,
            "versions": {
                "toolbank": toolbank.__version__,
                "pyarrow": metadata.version("pyarrow"),
            },
            "name": recipe.name,
            "domain": recipe.domain_name,
            "seed": recipe.seed,
            "dataset": {"type": config.type, "files": _hash_files(config)},
            "ordered": config.ordered,
            "counts": {"tools": len(names), "queries": len(queries)},
            "left_out": dataset.left_out.describe(),
            **describe_splits(splits, withheld),
            "sha256": {path.name: sha256_file(path) for path in files},
        },
    )
    left_out = (
        f"left out: {reason} ({count:,})"
        for reason, count in sorted(dataset.left_out.counts.items())
    )
    told = f"{len(names):,} tools, {len(queries):,} queries"
    return Outcome(told, (*files, info), problems=tuple(left_out))


def describe_splits(splits: Counter[Any], withheld: frozenset[str]) -> dict[str, Any]:
    """For bank.json: queries by split, and what no query of training may use.

    `splits` counts the queries by split, those that use a withheld tool under None.
    """
    counts = {name: splits[name] for name in ("train", "validation", "test")}
    if not withheld:
        return {"splits": counts}
    told = {"tools": sorted(withheld), "queries_left_out": splits[None]}
    return {"splits": counts, "withheld": told}


def _config(recipe: Recipe) -> DatasetConfig:
    if recipe.dataset is None:
        raise InputError(f"{recipe.name}: its recipe names no dataset.")
    return recipe.dataset


def _hash_files(config: DatasetConfig) -> dict[str, str]:
    from toolbank.loaders.datasets import dataset_files

    hashes = {}
    for path in dataset_files(config):
        inside = path.is_relative_to(config.path)
        name = path.relative_to(config.path).as_posix() if inside else path.name
        hashes[name] = sha256_file(path)
    return hashes
