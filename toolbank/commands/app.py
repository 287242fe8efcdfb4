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

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Parse the options of all commands; for that, typer imports pydantic."""
        try:
            return super().make_context(*args, **kwargs)
        except KeyboardInterrupt as error:
            raise Interrupted("stopped.") from error

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Import the command that is called."""
        if args[0] in _COMMANDS:
            self.add_command(load_command(args[0]), args[0])
        return super().resolve_command(ctx, args)

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


# The name, the summary and an example of each, in the order of the help.
_COMMANDS = {
    "recipes": ("List the recipes that come along, and those of ./recipes.", "recipes"),
    "init": (
        "Write a recipe for an API of your own.",
        "init weather openapi.json; or toolbank init weather_sdk",
    ),
    "tools": (
        "List the tools that are read of an API, and what is missing of them; call no model.",
        "tools openapi.json; or toolbank tools weather.yaml --json",
    ),
    "crawl": (
        "Read the tools of a Sphinx site, or compare two readings.",
        "crawl numpy; or toolbank crawl --sphinx https://docs.python.org/3/; or toolbank crawl --diff crawls/old crawls/new",
    ),
    "run": (
        "Run all stages of a recipe that are not done yet.",
        "run quickstart --out runs/rules --set generate.engine=rules --set generate.queries=3000",
    ),
    "generate": (
        "Collect the tools and make the bank; no further stage.",
        "generate quickstart --out runs/new --set generate.engine=openai --set generate.base_url=http://127.0.0.1:8000/v1 --set generate.model=llama-3.3-70b",
    ),
    "asks": (
        "Make the bank, and have requests for each tool by itself written; no further stage.",
        "asks quickstart --out runs/asks --set asks.engine=rules --set asks.kinds=[plain,terse]",
    ),
    "preview": (
        "Show a few prompts, the replies, and what the checks say of them; keep nothing.",
        "preview quickstart --set generate.engine=rules",
    ),
    "show": (
        "Show how the attempts of a run ended, all prompts and replies of one, or a tool.",
        "show runs/quickstart numpy-000012",
    ),
    "judge": (
        "Compare requests with their drafts, or with those of another dataset.",
        "judge runs/quickstart --set judge.pairs=300",
    ),
    "verify": (
        "Check the labels of a bank, and have a model grade them anew; no further stage.",
        "verify runs/quickstart --set verify.set_aside=[round-trip]",
    ),
    "train": ("Build the retrievers of a run on its bank.", "train runs/quickstart"),
    "evaluate": (
        "Evaluate a finished run's retrievers on labelled requests, or on its recipe's sets.",
        "evaluate runs/quickstart --on requests.jsonl --out metrics.json",
    ),
    "report": ("Write the HTML report of a run.", "report runs/quickstart"),
    "compare": (
        "Tell how good banks are, side by side: coverage, variety, wording, labels.",
        "compare runs/quickstart runs/rules requests.jsonl",
    ),
    "planner": (
        "Plan requests step by step: train planners on a run's bank, evaluate them, use one.",
        "planner train runs/planner; then toolbank planner evaluate runs/planner",
    ),
    "plan": (
        "Say what a run would do: its calls, tokens, money and trainings; call no model.",
        "plan quickstart --set generate.engine=rules",
    ),
    "refresh": (
        "Read the sources of a run again, and say what changed; call no model.",
        "refresh runs/quickstart --dry-run",
    ),
    "search": (
        "Find the tools that a request needs.",
        'search runs/quickstart "middle value of house prices, ignoring blanks"',
    ),
    "pack": (
        "Write what is needed to search and serve, and nothing else, without torch.",
        "pack runs/quickstart --out finder",
    ),
    "serve": (
        "Serve packed finders over HTTP and MCP, with a page to search on.",
        "serve finder; or toolbank serve numpy=finder pandas=other --port 9000",
    ),
    "export": (
        "Write a run's bank in another format.",
        "export runs/quickstart --format datasets --out numpy-bank",
    ),
    "publish": (
        "Write a run's bank as others load it, with a card, to a folder or a hub.",
        "publish runs/quickstart --to numpy-published --license cc-by-4.0; or toolbank publish runs/quickstart --to hub:me/numpy-bank",
    ),
    "schema": (
        "Print the JSON Schema of a recipe, for editors that check and complete YAML.",
        "schema > recipe.schema.json",
    ),
    "encoder": ("Train or evaluate a family of encoders as its paper does.", ""),
}

# A command's module has its name, but for these.
_ELSEWHERE = {
    **dict.fromkeys(
        ("generate", "asks", "verify", "train", "report"), "toolbank.commands.run"
    ),
    "planner": "toolbank.papers.planner.command",
    "encoder": "toolbank.papers.command",
}


def make_app() -> typer.Typer:
    """The command line. A command's module is imported when it is called, not for the help of all."""
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
    for name, (summary, _) in _COMMANDS.items():
        app.command(name, short_help=summary)(_take_options)
    return app


def load_command(name: str) -> Any:
    """Import a command, with its options."""
    module = import_module(_ELSEWHERE.get(name, f"toolbank.commands.{name}"))
    found = getattr(module, name)
    if isinstance(found, typer.Typer):
        return typer.main.get_command(found)
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(
        name,
        cls=ApiCommand if name in ("init", "tools") else HelpedCommand,
        epilog=f"Example: toolbank {_COMMANDS[name][1]}",
    )(found)
    return typer.main.get_command(app)
