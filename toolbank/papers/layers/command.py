"""`toolbank encoder ... layers`."""

from __future__ import annotations

from typing import Annotated

import typer

from toolbank.papers.result import DataOption, JsonOption, OutOption, leave
from toolbank.system.errors import InputError


def train(
    data: DataOption,  # noqa: ARG001
    out: OutOption,  # noqa: ARG001
    as_json: JsonOption = False,  # noqa: ARG001
) -> None:
    """Refuse: a language model's layers are used as they are."""
    raise InputError(
        "layers: there is nothing to train, since a language model is used as it is. Look at its "
        "layers: toolbank encoder evaluate layers. Then name one in a recipe: encoder: {type: "
        "layers, model: ..., layer: ...}."
    )


def evaluate(
    data: DataOption,
    out: OutOption,
    model: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A language model of the hub, or its folder; repeatable. If not given, that of "
            "the default sentence encoder.",
        ),
    ] = None,
    batch_size: Annotated[
        int, typer.Option(metavar="N", min=1, help="Texts read at once.")
    ] = 32,
    max_length: Annotated[
        int, typer.Option(metavar="N", min=1, help="Tokens of a text that are read.")
    ] = 512,
    seed: Annotated[
        int, typer.Option(metavar="N", help="Of the documents and the intervals.")
    ] = 0,
    as_json: JsonOption = False,
) -> None:
    """Find contexts of questions by every layer of language models."""
    from toolbank.encoders.model import demand_model
    from toolbank.encoders.sentence import DEFAULT_MODEL
    from toolbank.papers.layers.experiment import evaluate_layers
    from toolbank.papers.layers.states import read_passages
    from toolbank.papers.result import check_out

    check_out(out)
    models = model or [DEFAULT_MODEL]
    for name in models:
        demand_model(name)
    passages = read_passages(data)
    found = evaluate_layers(
        passages, models, batch_size=batch_size, max_length=max_length, seed=seed
    )
    leave(found, out, as_json)
