"""`toolbank tools`."""

from __future__ import annotations

from typing import Annotated

import typer

from toolbank.commands.options import complain, echo


def tools(
    given: Annotated[
        str,
        typer.Argument(
            metavar="RECIPE|RUN|API",
            help="A recipe, a run folder, or an API as it is.",
        ),
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print each tool as a line of JSON.")
    ] = False,
) -> None:
    """List the tools that are read of an API, and what is missing of them; call no model."""
    from toolbank.commands.tool_list import describe_left_out, read_given, tabulate

    collected = read_given(given)
    if as_json:
        typer.echo("\n".join(tool.model_dump_json() for tool in collected.tools))
    else:
        echo("\n".join(tabulate(collected.tools)))
    for line in describe_left_out(collected):
        complain(line)
