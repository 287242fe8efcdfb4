"""The commands of the command line."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from toolbank.commands.help import ApiCommand, HelpedCommand
from toolbank.system.errors import InterruptedByUserError
from toolbank.system.extras import MissingLibraryError, naming_extras
from toolbank.system.version import __version__


class _Commands(TyperGroup):
    """The group of all commands; Ctrl-C in any of them ends with a message."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Parse the options of the group; Ctrl-C counts here too, since imports take a moment."""
        try:
            return super().make_context(*args, **kwargs)
        except KeyboardInterrupt as error:
            raise InterruptedByUserError("stopped.") from error

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Import only the command that is called."""
        if args[0] in _COMMANDS:
            self.add_command(load_command(args[0]), args[0])
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            with naming_extras():
                return super().invoke(ctx)
        except MissingLibraryError as error:
            if error.who:
                raise
            raise MissingLibraryError(error.library, ctx.invoked_subcommand) from error
        except KeyboardInterrupt as error:
            raise InterruptedByUserError(f"stopped. {error}".strip()) from error
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")
            raise


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"toolbank {__version__}")
        raise typer.Exit


def _version_option(
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


# Name, summary and example, in the order of the help. The summary is the docstring's first line.
_COMMANDS = {
    "recipes": ("List the bundled recipes and those in ./recipes.", "recipes"),
    "init": (
        "Write a recipe for your API.",
        "init weather openapi.json; or toolbank init weather_sdk",
    ),
    "tools": (
        "List the tools of an API and what is missing in them, without calling a model.",
        "tools openapi.json; or toolbank tools weather.yaml --json",
    ),
    "lint": (
        "Check the tools of an API for faults that mislead models, without calling one.",
        "lint openapi.json; or toolbank lint weather.yaml --fail-on warning --sarif lint.sarif",
    ),
    "crawl": (
        "Crawl the tools of a Sphinx site, or compare two crawls.",
        "crawl numpy; or toolbank crawl --sphinx https://docs.python.org/3/; or toolbank crawl --diff crawls/old crawls/new",
    ),
    "run": (
        "Run all stages of a recipe that are not done yet.",
        "run quickstart --out runs/rules --set generate.engine=rules --set generate.queries=3000",
    ),
    "sweep": (
        "Run a recipe with several values and seeds, and compare the runs in one table.",
        "sweep quickstart --over seed=0,1,2 --over split.train_share=0.25,1",
    ),
    "generate": (
        "Collect the tools and generate queries for them, then stop.",
        "generate quickstart --out runs/new --set generate.engine=openai --set generate.base_url=http://127.0.0.1:8000/v1 --set generate.model=llama-3.3-70b",
    ),
    "asks": (
        "Generate the bank, then its asks (requests for single tools), and stop.",
        "asks quickstart --out runs/asks --set asks.engine=rules --set asks.kinds=[plain,terse]",
    ),
    "preview": (
        "Show a few prompts, their replies and the checks; keep nothing.",
        "preview quickstart --set generate.engine=rules",
    ),
    "show": (
        "List the attempts of a run, or show one attempt or one tool in full.",
        "show runs/quickstart numpy-000012",
    ),
    "judge": (
        "Compare queries with their drafts, or with another dataset.",
        "judge runs/quickstart --set judge.pairs=300",
    ),
    "verify": (
        "Check a bank's labels, have a model grade them, then stop.",
        "verify runs/quickstart --set verify.set_aside=[round-trip]",
    ),
    "profile": (
        "Class the requests of a run, and find copies between splits and of other sets.",
        "profile runs/quickstart --against toolret --against requests.jsonl",
    ),
    "review": (
        "Export a sheet of requests for people to grade, or import their grades.",
        "review export runs/quickstart --sample 100 --blind --out ann.csv; then toolbank review import runs/quickstart ann.csv",
    ),
    "train": ("Fit the retrievers of a run on its bank.", "train runs/quickstart"),
    "evaluate": (
        "Evaluate the retrievers of a finished run.",
        "evaluate runs/quickstart --on requests.jsonl --out metrics.json",
    ),
    "report": ("Write the HTML report of a run.", "report runs/quickstart"),
    "compare": (
        "Compare two banks: which is better, by how much, and how sure.",
        "compare runs/quickstart runs/rules --on requests.jsonl",
    ),
    "planner": (
        "Train, evaluate and use planners that call tools step by step.",
        "planner train runs/planner; then toolbank planner evaluate runs/planner",
    ),
    "plan": (
        "Estimate the calls, cost and trainings of a run, without calling a model.",
        "plan quickstart --set generate.engine=rules",
    ),
    "refresh": (
        (
            "Read a run's sources again, and apply and list changes, without calling a "
            "model."
        ),
        "refresh runs/quickstart --dry-run",
    ),
    "search": (
        "Find the tools that a request needs.",
        'search runs/quickstart "middle value of house prices, ignoring blanks"',
    ),
    "pack": (
        "Export a run as a small search index that needs no PyTorch.",
        "pack runs/quickstart --out finder",
    ),
    "serve": (
        "Serve packed finders over HTTP and MCP, with a search page.",
        "serve finder; or toolbank serve numpy=finder pandas=other --port 9000",
    ),
    "export": (
        "Write a run's bank in another format.",
        "export runs/quickstart --format datasets --out numpy-bank",
    ),
    "publish": (
        "Publish a run's bank with a dataset card to a folder or a hub.",
        "publish runs/quickstart --to numpy-published --license cc-by-4.0; or toolbank publish runs/quickstart --to hub:me/numpy-bank",
    ),
    "reproduce": (
        "Make a published bank again from its replies, and compare the bytes.",
        "reproduce numpy-published --out runs/again",
    ),
    "schema": (
        "Print the JSON Schema of a recipe, for editors.",
        "schema > recipe.schema.json",
    ),
    "encoder": ("Train or evaluate the encoders of a paper as the paper does.", ""),
}

# Commands whose module has another name.
_ELSEWHERE = {
    **dict.fromkeys(
        ("generate", "asks", "verify", "profile", "train", "report", "plan"),
        "toolbank.commands.run",
    ),
    **dict.fromkeys(("export", "reproduce"), "toolbank.commands.publish"),
    "recipes": "toolbank.commands.schema",
    "planner": "toolbank.papers.planner.command",
    "encoder": "toolbank.papers.command",
}


def make_app() -> typer.Typer:
    """Make the command line; each command is imported when it is called."""
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
    app.callback()(_version_option)
    for name, (summary, _) in _COMMANDS.items():
        app.command(name, short_help=summary)(_version_option)
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
        cls=ApiCommand if name in ("init", "lint", "tools") else HelpedCommand,
        epilog=f"Example: toolbank {_COMMANDS[name][1]}",
    )(found)
    return typer.main.get_command(app)
