"""`toolbank encoder train FAMILY` and `toolbank encoder evaluate FAMILY`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from toolbank.commands.help import HelpedCommand
from toolbank.commands.options import echo
from toolbank.encoders.sentence import DEFAULT_MODEL
from toolbank.papers.experiment import EXPERIMENT, PROMPTS, Result
from toolbank.system.errors import InputError
from toolbank.system.files import json_text
from toolbank.system.folders import check_folder


def _option(metavar: str, text: str, least: float | None = None) -> Any:
    return typer.Option(metavar=metavar, min=least, help=text)


DataOption = Annotated[Path, _option("DIR", "The folder of the paper's data.")]
OutOption = Annotated[Path, _option("DIR", "The output folder.")]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print the figures as JSON, not as tables.")
]
ModelOption = Annotated[
    str, _option("NAME", "A sentence encoder of the hub, or its folder as ./name.")
]
ProblemsOption = Annotated[
    int | None, _option("N", "Of each half at most. Default: all.", 1)
]

_PROMPTS = ", ".join(PROMPTS)


def train_layers(
    data: DataOption,  # noqa: ARG001
    out: OutOption,  # noqa: ARG001
    as_json: JsonOption = False,  # noqa: ARG001
) -> None:
    """Not available: the layers of a language model are not trained."""
    raise InputError(
        "layers: there is nothing to train. Compare the layers of a language model with toolbank "
        "encoder evaluate layers, then name one in a recipe: encoder: {type: layers, model: ..., "
        "layer: ...}."
    )


def evaluate_layers(
    data: DataOption,
    out: OutOption,
    model: Annotated[
        list[str] | None,
        _option(
            "NAME",
            "A language model of the hub, or its folder; repeatable. Default: that of the "
            "default sentence encoder.",
        ),
    ] = None,
    batch_size: Annotated[int, _option("N", "Texts per batch.", 1)] = 32,
    max_length: Annotated[int, _option("N", "Tokens per text.", 1)] = 512,
    seed: Annotated[int, _option("N", "Of the documents and the intervals.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Find the contexts of questions with each layer of language models."""
    from toolbank.encoders.model import require_model
    from toolbank.papers.layers import experiment
    from toolbank.papers.layers.states import read_passages

    check_folder(out, EXPERIMENT)
    models = model or [DEFAULT_MODEL]
    for name in models:
        require_model(name)
    passages = read_passages(data)
    found = experiment.evaluate_layers(
        passages, models, batch_size=batch_size, max_length=max_length, seed=seed
    )
    write_result(found, out, as_json)


def train_instructions(
    data: DataOption,
    out: OutOption,
    model: Annotated[
        str, _option("NAME", "A sentence encoder, or its folder.")
    ] = DEFAULT_MODEL,
    prompt: Annotated[
        str, _option("NAME", f"Around each instruction: {_PROMPTS}.")
    ] = "plain",
    unsupervised: Annotated[
        bool, typer.Option("--unsupervised", help="Use SimCSE, which needs no labels.")
    ] = False,
    hard_negatives: Annotated[
        bool,
        typer.Option(help="Use instructions that share only the verb or the noun."),
    ] = True,
    positives: Annotated[int, _option("N", "Rows per instruction.", 1)] = 1,
    epochs: Annotated[float, _option("N", "Passes over all rows.", 0.01)] = 1.0,
    learning_rate: Annotated[float, _option("X", "The peak.", 1e-8)] = 5e-5,
    limit: Annotated[int, _option("N", "Instructions at most; 0 for all.", 0)] = 0,
    seed: Annotated[int, _option("N", "Of rows, order, dropout and clusters.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Train an encoder so that instructions of one task are near each other.

    The tasks are derived from the instructions. A recipe reads the folder with `encoder: {model:
    ./DIR}`. The same command resumes a training that was stopped.
    """
    from toolbank.papers.instructions import experiment
    from toolbank.papers.instructions.training import InstructionsTraining

    _check(prompt)
    training = InstructionsTraining(
        objective="unsupervised" if unsupervised else "supervised",
        hard_negatives=hard_negatives and not unsupervised,
        positives=positives,
        epochs=epochs,
        learning_rate=learning_rate,
    )
    found = experiment.train_instructions(
        data, out, model, prompt, training, most=limit, seed=seed
    )
    write_result(found, out, as_json)


def evaluate_instructions(
    data: DataOption,
    out: OutOption,
    model: Annotated[
        list[str] | None,
        _option(
            "NAME",
            "A language model or a trained encoder, or its folder; repeatable. Default: the "
            "default sentence encoder.",
        ),
    ] = None,
    prompt: Annotated[
        list[str] | None,
        _option(
            "NAME",
            f"Around each instruction: {_PROMPTS}; repeatable. Default: all of them.",
        ),
    ] = None,
    pooling: Annotated[
        Literal["mean", "last", "mask"],
        _option(
            "NAME",
            "mean; last, for causal models; or mask, for masked ones, after the prompt.",
        ),
    ] = "mean",
    seed: Annotated[int, _option("N", "Of the clusters.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Cluster instructions by their tasks, and compare pairs of them.

    Needs eft_test.jsonl and intention_similarity_test.jsonl of the benchmark.
    """
    from toolbank.encoders.model import require_model
    from toolbank.papers.instructions import experiment

    check_folder(out, EXPERIMENT)
    models, prompts = model or [DEFAULT_MODEL], prompt or list(PROMPTS)
    for name in prompts:
        _check(name)
    for name in models:
        require_model(name)
    found = experiment.evaluate_instructions(data, models, prompts, pooling, seed)
    write_result(found, out, as_json)


def _check(prompt: str) -> None:
    if prompt not in PROMPTS:
        raise InputError(f"--prompt: no {prompt!r}; there are {_PROMPTS}.")


def train_steps(
    data: DataOption,
    out: OutOption,
    model: ModelOption = "all-MiniLM-L6-v2",
    problems: ProblemsOption = None,
    test: Annotated[
        int | None,
        _option("N", "Held-out problems at most. Default: as --problems.", 1),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Change a setting of the training, such as epochs=1; repeatable.",
        ),
    ] = None,
    seed: Annotated[int, _option("N", "Of the halves, perturbations and weights.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Train an encoder to tell chains of reasoning steps from changed ones; hold out half of the problems."""
    from toolbank.papers.steps import experiment

    training = experiment.read_training(settings or ())
    check_folder(out, EXPERIMENT)
    result = experiment.train_steps(
        data, out, model, training, train=problems, test=test or problems, seed=seed
    )
    write_result(result, out, as_json)


def evaluate_steps(
    data: DataOption,
    out: OutOption,
    model: ModelOption = "all-MiniLM-L6-v2",
    problems: ProblemsOption = None,
    seed: Annotated[
        int | None,
        _option(
            "N",
            "Of the halves and perturbations. Default: that of the model's training, or 0.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Count how often a held-out chain is nearer to its context than its changed chains are."""
    from toolbank.encoders import load_encoder
    from toolbank.encoders.sentence import SentenceConfig
    from toolbank.papers.steps import experiment
    from toolbank.papers.steps.problems import halve, read_problems

    check_folder(out, EXPERIMENT)
    seed = experiment.choose_seed(model, seed)
    _, held_out = halve(read_problems(data), seed)
    encoder = load_encoder(SentenceConfig(model=model))
    found = experiment.evaluate_steps({model: encoder}, held_out[:problems], seed)
    write_result(found, out, as_json)


def write_result(result: Result, out: Path, as_json: bool) -> None:
    """Write the result of an experiment to its folder, and print it."""
    result.write(out)
    echo(json_text(result.record).rstrip() if as_json else result.text)


_group = partial(typer.Typer, no_args_is_help=True, rich_markup_mode=None)
encoder = _group(
    name="encoder",
    add_completion=False,
    help="Train or evaluate the encoders of a paper as the paper does.",
    epilog="Example: toolbank encoder evaluate layers --data squad-dev --out experiments/layers",
)
_train = _group(name="train", help="Train an encoder of a family.")
_evaluate = _group(
    name="evaluate", help="Evaluate an encoder and print the tables of its paper."
)
encoder.add_typer(_train)
encoder.add_typer(_evaluate)

for family, data, train, evaluate in (
    ("layers", "squad-dev", train_layers, evaluate_layers),
    ("instructions", "ieb", train_instructions, evaluate_instructions),
    ("steps", "reasoning-steps", train_steps, evaluate_steps),
):
    for group, function in ((_train, train), (_evaluate, evaluate)):
        group.command(
            family,
            cls=HelpedCommand,
            short_help=str(function.__doc__).partition("\n")[0],
            epilog=f"Example: toolbank encoder {group.info.name} {family} --data {data} "
            f"--out experiments/{family}",
        )(function)
