"""`toolbank encoder ... steps`."""

from __future__ import annotations

from typing import Annotated

import typer

from toolbank.papers.result import DataOption, JsonOption, OutOption, leave

ModelOption = Annotated[
    str,
    typer.Option(
        metavar="NAME", help="A sentence encoder of the hub, or its folder as ./name."
    ),
]
ProblemsOption = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=1, help="Of each half at most; all of them if not given."
    ),
]
SeedOption = Annotated[
    int, typer.Option(metavar="N", help="Of the halves, perturbations and weights.")
]


def train(
    data: DataOption,
    out: OutOption,
    model: ModelOption = "all-MiniLM-L6-v2",
    problems: ProblemsOption = None,
    test: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Problems held out at most; as --problems if not given.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Change a setting of the training, such as epochs=1; repeatable.",
        ),
    ] = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Train an encoder to tell chains of steps from perturbed ones; half of them are held out."""
    from toolbank.papers.result import check_out
    from toolbank.papers.steps.experiment import read_training, train_steps

    training = read_training(settings or ())
    check_out(out)
    result = train_steps(
        data, out, model, training, train=problems, test=test or problems, seed=seed
    )
    leave(result, out, as_json)


def evaluate(
    data: DataOption,
    out: OutOption,
    model: ModelOption = "all-MiniLM-L6-v2",
    problems: ProblemsOption = None,
    seed: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Of the halves and perturbations; if not given, that of the model's training, "
            "or 0.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Tell how often chains of the half held out lie nearer to their context than perturbed ones."""
    from toolbank.encoders import load_encoder
    from toolbank.encoders.sentence import SentenceConfig
    from toolbank.papers.result import check_out
    from toolbank.papers.steps.experiment import choose_seed, evaluate_steps
    from toolbank.papers.steps.problems import halve, read_problems

    check_out(out)
    seed = choose_seed(model, seed)
    _, held_out = halve(read_problems(data), seed)
    encoder = load_encoder(SentenceConfig(model=model))
    leave(evaluate_steps({model: encoder}, held_out[:problems], seed), out, as_json)
