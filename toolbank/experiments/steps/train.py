"""Training an encoder on one half of the problems, and evaluating it on the other."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import astuple
from hashlib import sha256
from pathlib import Path

from pydantic import ValidationError

from toolbank.config.explain import first_problem
from toolbank.config.yaml import parse_value
from toolbank.encoders.locate import encoder_identity
from toolbank.encoders.sentence import SentenceConfig
from toolbank.encoders.steps.config import StepsTraining
from toolbank.encoders.steps.problems import Problem, halve, read_problems
from toolbank.experiments.result import Result
from toolbank.experiments.steps.evaluate import evaluate_steps
from toolbank.system.errors import InputError

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
    from toolbank.encoders.steps.training import train_on_steps
    from toolbank.training.config import TrainingContext, check_training

    check_training(training)
    config = SentenceConfig(model=model)
    problems = read_problems(data)
    trained_on, held_out = halve(problems, seed)
    trained_on, held_out = trained_on[:train], held_out[:test]
    identity = _identify(config, training, trained_on, seed)
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
    trained.encoder.save(out)
    shutil.rmtree(checkpoints, ignore_errors=True)
    return result


def _identify(
    config: SentenceConfig,
    training: StepsTraining,
    problems: Sequence[Problem],
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
