"""The commands, and the options of all of them."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from toolbank.commands.help import ApiCommand, HelpedCommand
from toolbank.system.errors import Interrupted
from toolbank.system.extras import MissingLibraryError, telling_extras
from toolbank.system.version import __version__


class _Commands(TyperGroup):
    """The commands; Ctrl-C in any of them ends with a message."""

    def invoke(self, ctx: Any) -> Any:
        try:
            with telling_extras():
                return super().invoke(ctx)
        except MissingLibraryError as error:
            if error.who:
                raise
            raise MissingLibraryError(error.library, ctx.invoked_subcommand) from error
        except KeyboardInterrupt as error:
            raise Interrupted(f"stopped. {error}".strip()) from error
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")
            raise


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"toolbank {__version__}")
        raise typer.Exit


def _take_options(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Show the version and exit.",
            is_eager=True,
            callback=_print_version,
        ),
    ] = False,
) -> None:
    """Turn an API reference into a tool-retrieval dataset, and the dataset into a retriever."""


# The name of each, and an example of its use, in the order of the help. Its module is of its name.
_COMMANDS = (
    ("recipes", "recipes"),
    ("init", "init weather openapi.json; or toolbank init weather_sdk"),
    ("tools", "tools openapi.json; or toolbank tools weather.yaml --json"),
    (
        "crawl",
        "crawl numpy; or toolbank crawl --sphinx https://docs.python.org/3/; "
        "or toolbank crawl --diff crawls/old crawls/new",
    ),
    (
        "run",
        "run quickstart --out runs/rules --set generate.engine=rules "
        "--set generate.queries=3000",
    ),
    (
        "generate",
        "generate quickstart --out runs/new --set generate.engine=openai "
        "--set generate.base_url=http://127.0.0.1:8000/v1 --set generate.model=llama-3.3-70b",
    ),
    (
        "asks",
        "asks quickstart --out runs/asks --set asks.engine=rules --set asks.kinds=[plain,terse]",
    ),
    ("preview", "preview quickstart --set generate.engine=rules"),
    ("show", "show runs/quickstart numpy-000012"),
    ("judge", "judge runs/quickstart --set judge.pairs=300"),
    ("verify", "verify runs/quickstart --set verify.set_aside=[round-trip]"),
    ("train", "train runs/quickstart"),
    (
        "evaluate",
        "evaluate runs/quickstart --on requests.jsonl --out metrics.json",
    ),
    ("report", "report runs/quickstart"),
    ("compare", "compare runs/quickstart runs/rules requests.jsonl"),
    (
        "planner",
        "planner train runs/planner; then toolbank planner evaluate runs/planner",
    ),
    ("plan", "plan quickstart --set generate.engine=rules"),
    ("refresh", "refresh runs/quickstart --dry-run"),
    (
        "search",
        'search runs/quickstart "middle value of house prices, ignoring blanks"',
    ),
    ("pack", "pack runs/quickstart --out finder"),
    ("serve", "serve finder; or toolbank serve numpy=finder pandas=other --port 9000"),
    ("export", "export runs/quickstart --format datasets --out numpy-bank"),
    (
        "publish",
        "publish runs/quickstart --to numpy-published --license cc-by-4.0; "
        "or toolbank publish runs/quickstart --to hub:me/numpy-bank",
    ),
    ("schema", "schema > recipe.schema.json"),
)

# The stages as commands are beside `run`, and the planner beside the rest of it.
_ELSEWHERE = {
    **dict.fromkeys(
        ("generate", "asks", "verify", "train", "report"), "toolbank.commands.run"
    ),
    "planner": "toolbank.papers.planner.command",
}


def make_app(name: str = "") -> typer.Typer:
    """The command line; of a command's name, with that alone, so that no other is imported."""
    app = typer.Typer(
        name="toolbank",
        cls=_Commands,
        epilog="Example: toolbank run quickstart",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_take_options)
    names = {command for command, _ in _COMMANDS}
    for command, example in _COMMANDS:
        if name in names - {command}:
            continue
        module = _ELSEWHERE.get(command, f"toolbank.commands.{command}")
        function = getattr(import_module(module), command)
        app.command(
            cls=ApiCommand if command in ("init", "tools") else HelpedCommand,
            short_help=str(function.__doc__).partition("\n")[0],
            epilog=f"Example: toolbank {example}",
        )(function)
    if name not in names:
        from toolbank.papers.command import encoder

        app.add_typer(encoder)
    return app
