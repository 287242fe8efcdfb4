"""Train and evaluate an encoder of reasoning steps as ROSCOE does."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from toolbank.config.explain import first_problem
from toolbank.config.yaml import parse_value
from toolbank.encoders.base import Encoder
from toolbank.encoders.location import encoder_identity, find_folder
from toolbank.encoders.sentence import SentenceConfig
from toolbank.evaluation.figures import Figure, difference_intervals, mean_intervals
from toolbank.evaluation.tables import FEW, Columns, with_intervals
from toolbank.papers.experiment import EXPERIMENT, RECORD, Result
from toolbank.papers.steps.perturb import PERTURBATIONS
from toolbank.papers.steps.problems import ReasoningProblem, halve, read_problems
from toolbank.papers.steps.training import (
    Compared,
    StepsTraining,
    Values,
    compare_chains,
)
from toolbank.system.errors import InputError
from toolbank.system.files import read_json
from toolbank.system.folders import claim_folder, replacing

_RESAMPLES = 1000
_EXPERIMENT = "steps"
ALL = "all"
"""The mean over problems of the share of its perturbations that each chain beats."""


def evaluate_steps(
    encoders: Mapping[str, Encoder],
    problems: Sequence[ReasoningProblem],
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
    name: str, problems: Sequence[ReasoningProblem], compared: Compared, seed: int
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


# Hidden: it is not part of the encoder that lies beside it.
_CHECKPOINTS = ".checkpoints"


def read_training(settings: Sequence[str]) -> StepsTraining:
    """The settings of a training that "key=value" texts change.

    Raises:
        InputError: one is no such text, or there is no such setting or value.
    """
    values = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not (equals and key.strip()):
            raise InputError(
                f"--set {setting}: write --set key=value, such as --set epochs=1."
            )
        values[key.strip()] = parse_value(text, f"--set {key}")
    try:
        return StepsTraining.model_validate(values)
    except ValidationError as error:
        keys = ", ".join(StepsTraining.model_fields)
        raise InputError(
            f"--set {first_problem(error)}. The settings are {keys}."
        ) from error


def train_steps(
    data: Path,
    out: Path,
    model: str,
    training: StepsTraining,
    *,
    train: int | None,
    test: int | None,
    seed: int,
) -> Result:
    """Train on one half of a folder's problems, write the encoder to `out`, evaluate on the other.

    `train` and `test` are how many of each half at most. One that was killed goes on from its last
    checkpoint, which is in `out` until the training is done.

    Raises:
        InputError: the problems can't be read, or the encoder can't be had or trained.
    """
    from toolbank.encoders import load_encoder
    from toolbank.papers.steps.training import train_on_steps
    from toolbank.training.config import TrainingContext, check_training

    check_training(training)
    config = SentenceConfig(model=model)
    problems = read_problems(data)
    trained_on, held_out = halve(problems, seed)
    trained_on, held_out = trained_on[:train], held_out[:test]
    identity = _identify(config, training, trained_on, seed)
    claim_folder(out, EXPERIMENT)
    checkpoints = out / _CHECKPOINTS
    trained = train_on_steps(
        config,
        training,
        trained_on,
        TrainingContext(seed=seed, checkpoints=checkpoints / identity),
    )
    result = evaluate_steps(
        {"before": load_encoder(config), "after": trained.encoder},
        held_out,
        seed,
        {
            "model": model,
            "trained_on": trained.training.examples,
            "steps": trained.training.steps,
            "negatives": dict(trained.negatives),
            "training": training.model_dump(mode="json"),
        },
    )
    with replacing(out, EXPERIMENT) as made:
        trained.encoder.save(made)
    shutil.rmtree(checkpoints, ignore_errors=True)
    return result


def _identify(
    config: SentenceConfig,
    training: StepsTraining,
    problems: Sequence[ReasoningProblem],
    seed: int,
) -> str:
    """Names what the weights of a training follow from."""
    parts = [
        encoder_identity(config),
        training.model_dump_json(),
        [astuple(problem) for problem in problems],
        seed,
    ]
    return sha256(json.dumps(parts).encode()).hexdigest()[:16]
