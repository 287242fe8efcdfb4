"""`toolbank encoder ... instructions`."""

from __future__ import annotations

from typing import Annotated

import typer

from toolbank.commands.options import echo
from toolbank.encoders.sentence import DEFAULT_MODEL
from toolbank.papers.prompts import PROMPTS, Pooling
from toolbank.papers.result import DataOption, JsonOption, OutOption, leave
from toolbank.system.errors import InputError
from toolbank.system.files import json_text

_PROMPTS = ", ".join(PROMPTS)
_POOLINGS: dict[str, Pooling] = {"mean": "mean", "last": "last", "mask": "mask"}


def train(
    data: DataOption,
    out: OutOption,
    model: Annotated[
        str, typer.Option(metavar="NAME", help="A sentence encoder, or its folder.")
    ] = DEFAULT_MODEL,
    prompt: Annotated[
        str, typer.Option(metavar="NAME", help=f"Around each instruction: {_PROMPTS}.")
    ] = "plain",
    unsupervised: Annotated[
        bool, typer.Option("--unsupervised", help="SimCSE, which needs no labels.")
    ] = False,
    hard_negatives: Annotated[
        bool, typer.Option(help="Instructions that share the verb or noun alone.")
    ] = True,
    positives: Annotated[
        int, typer.Option(metavar="N", min=1, help="Rows of each instruction.")
    ] = 1,
    epochs: Annotated[
        float, typer.Option(metavar="N", min=0.01, help="Passes over all rows.")
    ] = 1.0,
    learning_rate: Annotated[
        float, typer.Option(metavar="X", min=1e-8, help="Its highest.")
    ] = 5e-5,
    limit: Annotated[
        int, typer.Option(metavar="N", min=0, help="Instructions at most; 0 for all.")
    ] = 0,
    seed: Annotated[
        int, typer.Option(metavar="N", help="Of rows, order, dropout and clusters.")
    ] = 0,
    as_json: JsonOption = False,
) -> None:
    """Train an encoder so that instructions of one task lie near each other.

    The tasks are derived from the instructions. The folder is one that `encoder: {model: ./DIR}` of
    a recipe reads; a training that was stopped there goes on.
    """
    from toolbank.papers.instructions.experiment import Settings, train_instructions
    from toolbank.papers.instructions.training import InstructionsTraining

    _check(prompt)
    training = InstructionsTraining(
        objective="unsupervised" if unsupervised else "supervised",
        hard_negatives=hard_negatives and not unsupervised,
        positives=positives,
        epochs=epochs,
        learning_rate=learning_rate,
    )
    settings = Settings(model, prompt, training, seed, limit)
    found = train_instructions(data, out, settings)
    echo(json_text(found.record).rstrip() if as_json else found.text)


def evaluate(
    data: DataOption,
    out: OutOption,
    model: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A language model or a trained encoder, or its folder; repeatable. If not given, "
            "the default sentence encoder.",
        ),
    ] = None,
    prompt: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help=f"Around each instruction: {_PROMPTS}; repeatable. If not given, each of them.",
        ),
    ] = None,
    pooling: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="mean; last, for causal models; or mask, for masked ones, behind the prompt.",
        ),
    ] = "mean",
    seed: Annotated[int, typer.Option(metavar="N", help="Of the clusters.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Cluster instructions by their tasks, and compare pairs of them.

    Needs eft_test.jsonl and intention_similarity_test.jsonl of the benchmark.
    """
    from toolbank.encoders.model import demand_model
    from toolbank.papers.instructions.experiment import evaluate_instructions
    from toolbank.papers.result import check_out

    check_out(out)
    models, prompts = model or [DEFAULT_MODEL], prompt or list(PROMPTS)
    for name in prompts:
        _check(name)
    if pooling not in _POOLINGS:
        raise InputError(
            f"--pooling: no {pooling!r}; there are {', '.join(_POOLINGS)}."
        )
    for name in models:
        demand_model(name)
    found = evaluate_instructions(data, models, prompts, _POOLINGS[pooling], seed)
    leave(found, out, as_json)


def _check(prompt: str) -> None:
    if prompt not in PROMPTS:
        raise InputError(f"--prompt: no {prompt!r}; there are {_PROMPTS}.")
