"""`toolbank encoder train FAMILY` and `toolbank encoder evaluate FAMILY`."""

from __future__ import annotations

import typer

from toolbank.commands.help import HelpedCommand
from toolbank.papers.instructions import command as instructions
from toolbank.papers.layers import command as layers
from toolbank.papers.steps import command as steps

# A module for each, with `train` and `evaluate`; and an example of what both take.
_FAMILIES = (
    (layers, "layers --data squad-dev --out experiments/layers"),
    (instructions, "instructions --data ieb --out experiments/instructions"),
    (steps, "steps --data reasoning-steps --out experiments/steps"),
)

encoder = typer.Typer(
    name="encoder",
    add_completion=False,
    help="Train or evaluate a family of encoders as its paper does.",
    epilog="Example: toolbank encoder evaluate layers --data squad-dev --out experiments/layers",
    no_args_is_help=True,
    rich_markup_mode=None,
)
_train = typer.Typer(
    name="train",
    help="Train an encoder of a family.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
_evaluate = typer.Typer(
    name="evaluate",
    help="Print the tables of a family's paper for an encoder.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
encoder.add_typer(_train)
encoder.add_typer(_evaluate)

for family, example in _FAMILIES:
    for group, function in ((_train, family.train), (_evaluate, family.evaluate)):
        group.command(
            example.partition(" ")[0],
            cls=HelpedCommand,
            short_help=str(function.__doc__).partition("\n")[0],
            epilog=f"Example: toolbank encoder {group.info.name} {example}",
        )(function)
