"""The stage that evaluates the retrievers of a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import toolbank
from toolbank.bank import Bank
from toolbank.errors import InputError
from toolbank.evaluation.sets import (
    EvaluationSet,
    describe_labels,
    make_set,
    split_sets,
)
from toolbank.files import write_json
from toolbank.folder import RunFolder
from toolbank.loaders.labelled import read_labelled
from toolbank.recipe import Recipe
from toolbank.stage import Outcome, bank_hashes, hash_file, model_hashes, read_settings


def evaluate_depends(recipe: Recipe, folder: RunFolder) -> dict[str, Any]:
    """What the figures follow from."""
    return {
        "bank": bank_hashes(folder),
        "models": model_hashes(recipe, folder),
        "config": read_settings(recipe.evaluate, "on"),
        "on": [[path.stem, hash_file(path)] for path in recipe.evaluate.on],
        "seed": recipe.seed,
        "toolbank": toolbank.__version__,
    }


def evaluate_bank(recipe: Recipe, folder: RunFolder) -> Outcome:
    """Evaluate every retriever on the test split and the labelled files."""
    bank = Bank.load(folder.bank)
    sets = [*split_sets(bank), *file_sets(bank, recipe.evaluate.on)]
    names = [config.label for config in recipe.retrievers]
    write_json(folder.metrics, measure(folder, names, sets, recipe))
    write_json(folder.labels, [describe_labels(evaluated) for evaluated in sets])
    told = ", ".join(
        f"{evaluated.name} ({len(evaluated.queries)})" for evaluated in sets
    )
    return Outcome(told, (folder.metrics, folder.labels))


def file_sets(bank: Bank, paths: Sequence[Path]) -> list[EvaluationSet]:
    """A set for every labelled file.

    Raises:
        InputError: a file is missing or broken, or none of its labels is a tool of the bank.
    """
    sets = []
    for path in paths:
        file = read_labelled(path)
        labels = [name for query in file.queries for name in query.tools]
        if not any(name in bank.index for name in labels):
            example = f", such as {labels[0]}" if labels else ""
            raise InputError(
                f"{path}: none of its {len(labels)} labels is a tool of this bank{example}. "
                f"The bank's names look like {bank.tools[0].name}."
            )
        sets.append(make_set(file.name, bank, file.queries, file.refusals))
    return sets


def measure(
    folder: RunFolder,
    retrievers: Sequence[str],
    sets: Sequence[EvaluationSet],
    recipe: Recipe,
) -> list[dict[str, Any]]:
    """The records of these retrievers on these sets."""
    from toolbank.evaluation.evaluate import evaluate_retriever
    from toolbank.retrievers import load_retriever

    return [
        record
        for name in retrievers
        for record in evaluate_retriever(
            load_retriever(folder.models / name), sets, recipe.evaluate, recipe.seed
        )
    ]
