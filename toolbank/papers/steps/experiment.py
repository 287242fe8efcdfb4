"""Train and evaluate an encoder of reasoning steps as ROSCOE does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple
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
from toolbank.papers.experiment import EXPERIMENT, RECORD, Result, keeping_checkpoints
from toolbank.papers.steps.perturb import PERTURBATIONS
from toolbank.papers.steps.problems import ReasoningProblem, halve, read_problems
from toolbank.papers.steps.training import (
    ChainComparison,
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
    """Compute how often a chain is nearer to its context than its perturbations, per encoder.

    There is an accuracy per kind of perturbation, per dataset and overall, with 95 % intervals over
    problems. With several encoders, the last is also compared with the first. `more` goes into the
    record.
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
    """Choose the seed of an evaluation: that of the training, if the model was trained on steps.

    Another seed would hold out problems of the training. For any other model it is the one given, or
    0.

    Raises:
        InputError: another seed is given, there is no such folder, or its record is unreadable.
    """
    folder = find_folder(model)
    record = folder / RECORD if folder else None
    content: Any = read_json(record) if record and record.is_file() else None
    # Earlier records of this experiment do not name it; those of others always did.
    is_of_steps = (
        isinstance(content, dict)
        and content.get("experiment", _EXPERIMENT) == _EXPERIMENT
    )
    trained = content.get("seed") if is_of_steps else None
    if not isinstance(trained, int):
        return given or 0
    if given not in (None, trained):
        raise InputError(
            f"--seed {given}: {model} was trained with the seed {trained}. Another one would hold "
            f"out problems of its training. Give --seed {trained}, or none."
        )
    return trained


def _take_figures(
    name: str,
    problems: Sequence[ReasoningProblem],
    compared: ChainComparison,
    seed: int,
) -> list[Figure]:
    whole = compared.of_problems
    datasets = np.array([one.dataset for one in problems])
    values = dict(zip(PERTURBATIONS, compared.nearer.T, strict=True))
    for dataset in sorted(set(datasets.tolist())):
        values[f"{ALL} of {dataset}"] = whole[datasets == dataset]
    values[ALL] = whole
    return [_figure(name, kind, found, seed) for kind, found in values.items()]


def _figure(name: str, kind: str, values: Values, seed: int) -> Figure:
    values = values[~np.isnan(values)]
    if not len(values):
        return Figure(name, kind, "accuracy", None, None, None, None, 0)
    [(low, high)] = mean_intervals(values[:, None], _RESAMPLES, seed)
    mean = float(values.mean())
    return Figure(name, kind, "accuracy", None, mean, low, high, len(values))


def _take_faithfulness(compared: ChainComparison) -> dict[str, dict[str, float]]:
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
    lines = [
        "How often a reference chain is nearer to its context than its perturbation, in %:",
        *map(str.rstrip, Columns(headers, cells).lines()[1:]),
    ]
    if any(one.value is not None and one.low is None for one in rows):
        lines.append(FEW)
    return "\n".join(lines)


def read_training(settings: Sequence[str]) -> StepsTraining:
    """Read the settings of a training from "key=value" texts.

    Raises:
        InputError: a text has another form, or there is no such setting or value.
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

    `train` and `test` limit the halves. A training that was killed resumes from its checkpoint in
    `out`.

    Raises:
        InputError: the problems cannot be read, or the encoder cannot be read or trained.
    """
    from toolbank.encoders import load_encoder
    from toolbank.papers.steps.training import train_on_steps
    from toolbank.training.config import TrainingContext, check_training

    check_training(training)
    config = SentenceConfig(model=model)
    problems = read_problems(data)
    trained_on, held_out = halve(problems, seed)
    trained_on, held_out = trained_on[:train], held_out[:test]
    claim_folder(out, EXPERIMENT)
    with keeping_checkpoints(
        out,
        encoder_identity(config),
        training.model_dump_json(),
        [astuple(problem) for problem in trained_on],
        seed,
    ) as checkpoints:
        context = TrainingContext(seed=seed, checkpoints=checkpoints)
        encoder, trained, negatives = train_on_steps(
            config, training, trained_on, context
        )
        result = evaluate_steps(
            {"before": load_encoder(config), "after": encoder},
            held_out,
            seed,
            {
                "model": model,
                "trained_on": trained.examples,
                "steps": trained.steps,
                "negatives": dict(negatives),
                "training": training.model_dump(mode="json"),
            },
        )
        with replacing(out, EXPERIMENT) as made:
            encoder.save(made)
    return result
