"""Reference chains against their perturbations: ROSCOE's encoder, before and after a training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from toolbank.encoders.base import Encoder
from toolbank.encoders.locate import find_folder
from toolbank.encoders.steps.comparing import Compared, Values, compare_chains
from toolbank.encoders.steps.perturb import PERTURBATIONS
from toolbank.encoders.steps.problems import Problem
from toolbank.evaluation.cells import FEW, with_intervals
from toolbank.evaluation.figures import Figure
from toolbank.evaluation.interval import difference_intervals, mean_intervals
from toolbank.evaluation.layout import Columns
from toolbank.experiments.result import RECORD, Result
from toolbank.system.errors import InputError
from toolbank.system.files import read_json

_RESAMPLES = 1000
_EXPERIMENT = "steps"
ALL = "all"
"""The mean over problems of the share of its perturbations that each chain beats."""


def evaluate_steps(
    encoders: Mapping[str, Encoder],
    problems: Sequence[Problem],
    seed: int,
    more: Mapping[str, Any] | None = None,
) -> Result:
    """How often a chain lies nearer to its context than its perturbations, by each encoder.

    Accuracies are by kind of perturbation, by dataset and over all, with 95 % intervals over
    problems. Where there are two encoders or more, the last is also held against the first.
    `more` goes into the record.
    """
    found = {
        name: compare_chains(encoder, problems, seed)
        for name, encoder in encoders.items()
    }
    figures = {
        name: _take_figures(name, problems, compared, seed)
        for name, compared in found.items()
    }
    first, *_, last = [*found.values(), *found.values()]
    record = {
        "experiment": _EXPERIMENT,
        **(more or {}),
        "problems": len(problems),
        "seed": seed,
        "does_not_apply": {
            kind: int(np.isnan(first.nearer[:, column]).sum())
            for column, kind in enumerate(PERTURBATIONS)
        },
        "accuracy": [asdict(one) for rows in figures.values() for one in rows],
        "faithfulness": {
            name: _take_faithfulness(compared) for name, compared in found.items()
        },
    }
    text = _lay_out(figures)
    if len(found) > 1:
        gains = (last.of_problems - first.of_problems)[:, None]
        gains = gains[~np.isnan(gains[:, 0])]
        [(low, high)] = difference_intervals(gains, _RESAMPLES, seed)
        record["gain"] = {"value": float(gains.mean()), "low": low, "high": high}
    return Result(record, text)


def choose_seed(model: str, given: int | None) -> int:
    """The seed of an evaluation: of a folder that was trained on steps, that of its training.

    By another one, problems that it was trained on would be among those held out. Of any other
    model the one given, or 0.

    Raises:
        InputError: another one is given, there is no such folder, or its record can't be read.
    """
    folder = find_folder(model)
    trained = _read_seed(folder / RECORD) if folder else None
    if trained is None:
        return given or 0
    if given not in (None, trained):
        raise InputError(
            f"--seed {given}: {model} was trained by the seed {trained}, and by another one "
            f"problems that it was trained on would be held out. Give --seed {trained}, or none."
        )
    return trained


def _read_seed(record: Path) -> int | None:
    """The seed of the experiment on steps whose record it is; None if there is none."""
    content = read_json(record) if record.is_file() else None
    # Earlier records of this experiment don't name it; those of others always did.
    if (
        not isinstance(content, dict)
        or content.get("experiment", _EXPERIMENT) != _EXPERIMENT
    ):
        return None
    seed = content.get("seed")
    return seed if isinstance(seed, int) else None


def _take_figures(
    name: str, problems: Sequence[Problem], compared: Compared, seed: int
) -> list[Figure]:
    whole = compared.of_problems
    datasets = np.array([one.dataset for one in problems])
    return [
        *(
            _figure(name, kind, compared.nearer[:, column], seed)
            for column, kind in enumerate(PERTURBATIONS)
        ),
        *(
            _figure(name, f"{ALL} of {one}", whole[datasets == one], seed)
            for one in dict.fromkeys(sorted(datasets.tolist()))
        ),
        _figure(name, ALL, whole, seed),
    ]


def _figure(name: str, kind: str, values: Values, seed: int) -> Figure:
    values = values[~np.isnan(values)]
    if not len(values):
        return Figure(name, kind, "accuracy", None, None, None, None, 0)
    [(low, high)] = mean_intervals(values[:, None], _RESAMPLES, seed)
    mean = float(values.mean())
    return Figure(name, kind, "accuracy", None, mean, low, high, len(values))


def _take_faithfulness(compared: Compared) -> dict[str, dict[str, float]]:
    """Mean Faithfulness-Step by kind, of the perturbed chains and of the same ones as given."""
    applies = ~np.isnan(compared.faithful)
    return {
        kind: {
            "reference": float(compared.reference[applies[:, column]].mean()),
            "perturbed": float(compared.faithful[applies[:, column], column].mean()),
        }
        for column, kind in enumerate(PERTURBATIONS)
        if applies[:, column].any()
    }


def _lay_out(figures: Mapping[str, Sequence[Figure]]) -> str:
    rows = next(iter(figures.values()))
    columns = [with_intervals(name, found) for name, found in figures.items()]
    headers = ("perturbation", "n", *(header for header, _ in columns))
    cells = tuple(
        (one.set, str(one.n), *(cells[place] for _, cells in columns))
        for place, one in enumerate(rows)
    )
    lines = Columns(headers, cells).lines()[1:]
    return "\n".join(
        [
            "How often a reference chain lies nearer to its context than its perturbation, in %:",
            *(line.rstrip() for line in lines),
            *(
                [FEW]
                if any(one.value is not None and one.low is None for one in rows)
                else []
            ),
        ]
    )
