"""`toolbank schema`."""

from __future__ import annotations

from typing import Annotated

import typer

from toolbank.commands.options import echo


def schema(
    markdown: Annotated[
        bool, typer.Option("--markdown", help="As a page of tables for people.")
    ] = False,
) -> None:
    """Print the JSON Schema of a recipe, for editors that check and complete YAML."""
    import json

    from toolbank.commands.keys import describe_keys
    from toolbank.run.recipe import recipe_schema

    found = recipe_schema()
    echo(describe_keys(found) if markdown else json.dumps(found, indent=2))
