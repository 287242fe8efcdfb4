"""One command a stage: each parses, calls one function, and prints."""

from __future__ import annotations

import gc
import signal
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from toolbank.system.errors import ToolbankError
from toolbank.system.terminal import printable, say

# Most objects live as long as their row, and few are in cycles: Python 3.11's 700 takes 4 % of
# the time of `generate`.
_OBJECTS_BEFORE_COLLECTION = 20_000


class _Commands(TyperGroup):
    """The commands; Ctrl-C in any of them ends with a message."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise ToolbankError("stopped.") from error
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")
            raise


app = typer.Typer(
    name="toolbank",
    cls=_Commands,
    help="Turn an API reference into a tool-retrieval dataset, and the dataset into a retriever.",
    epilog="Example: toolbank run quickstart",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


class Stage(StrEnum):
    """The stages of a run, in their order."""

    dataset = "dataset"
    sources = "sources"
    generate = "generate"
    judge = "judge"
    retrievers = "retrievers"
    evaluate = "evaluate"
    report = "report"


class ExportFormat(StrEnum):
    """What `toolbank export` can write."""

    datasets = "datasets"
    jsonl = "jsonl"
    toolbank = "toolbank"
    functions = "functions"


RecipeArgument = Annotated[
    str,
    typer.Argument(
        metavar="RECIPE",
        help="A recipe that comes along, a YAML file, or a run folder.",
    ),
]
RunArgument = Annotated[
    Path,
    typer.Argument(metavar="RUN", help="The folder of a run, such as runs/quickstart."),
]
OutOption = Annotated[
    Path | None, typer.Option("--out", help="The run folder; runs/<name> if not given.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Change a value of the recipe; repeatable."
    ),
]


@app.command(
    epilog="Example: toolbank init weather --package weather_sdk --out weather.yaml"
)
def init(
    name: Annotated[str, typer.Argument(help="Name of the recipe and of its runs.")],
    package: Annotated[
        str | None, typer.Option(help="An installed Python package to read.")
    ] = None,
    site: Annotated[
        str | None, typer.Option(help="A site of crawlers/<site>.yaml to crawl.")
    ] = None,
    sphinx: Annotated[
        str | None, typer.Option(metavar="URL", help="Any other Sphinx site to crawl.")
    ] = None,
    base_url: Annotated[
        str | None,
        typer.Option(help="Address of your model's OpenAI-compatible endpoint."),
    ] = None,
    model: Annotated[str | None, typer.Option(help="The model's name there.")] = None,
    out: Annotated[Path | None, typer.Option(help="<name>.yaml if not given.")] = None,
    prompts: Annotated[
        bool,
        typer.Option(
            "--prompts", help="Also copy the prompts to ./prompts, to change them."
        ),
    ] = False,
) -> None:
    """Write a recipe for an API of your own."""
    from toolbank.commands.init import copy_prompts, write_recipe

    path = write_recipe(
        out or Path(f"{name}.yaml"),
        name=name,
        package=package,
        site=site,
        sphinx=sphinx,
        base_url=base_url,
        model=model,
    )
    _echo(f"Wrote {path}. Look it over, then: toolbank plan {path}")
    if prompts:
        for copied in copy_prompts(Path("prompts")):
            _echo(f"Wrote {copied}")


@app.command(
    epilog="Example: toolbank crawl numpy; or toolbank crawl --sphinx https://docs.python.org/3/; "
    "or toolbank crawl --diff crawls/old crawls/new"
)
def crawl(
    site: Annotated[
        str | None, typer.Argument(help="A site of crawlers/<site>.yaml.")
    ] = None,
    sphinx: Annotated[
        str | None,
        typer.Option(
            "--sphinx", metavar="URL", help="Any Sphinx site, read by its inventory."
        ),
    ] = None,
    base_url: Annotated[
        str | None, typer.Option(help="Another address of the same site.")
    ] = None,
    include: Annotated[
        list[str] | None,
        typer.Option(help="Take only this name and what is in it; repeatable."),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(help="Leave this name out, and what is in it; repeatable."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The crawl's folder; crawls/<site> if not given."),
    ] = None,
    contact: Annotated[
        str | None,
        typer.Option(
            help="Your mail or web address, told to the site with each request."
        ),
    ] = None,
    refresh: Annotated[
        bool,
        typer.Option("--refresh", help="Ask the site whether pages have changed."),
    ] = False,
    private_addresses: Annotated[
        bool,
        typer.Option(
            "--private-addresses", help="Let a public name lead into a private network."
        ),
    ] = False,
    diff: Annotated[
        tuple[Path, Path] | None,
        typer.Option(
            metavar="OLD NEW",
            help="Compare the tools of two crawls, and fetch nothing.",
        ),
    ] = None,
) -> None:
    """Read the tools of a Sphinx site, or compare two readings."""
    if diff is not None:
        from toolbank.commands.diff import compare_crawls

        others = (site, sphinx, base_url, include, exclude, out, contact)
        if any(others) or refresh or private_addresses:
            raise typer.BadParameter("--diff OLD NEW stands alone: it fetches nothing.")
        _echo(compare_crawls(*diff))
        return
    if sphinx and (site or base_url):
        raise typer.BadParameter(
            "--sphinx URL reads a site by its inventory alone; give it without a site's name "
            "and --base-url."
        )
    if not (site or sphinx):
        raise typer.BadParameter("Give a site of crawlers/, or --sphinx URL.")
    from toolbank.commands.crawl import crawl_to_folder

    crawled = crawl_to_folder(
        out,
        site=site,
        base_url=sphinx or base_url,
        include=include or (),
        exclude=exclude or (),
        contact=contact,
        refresh=refresh,
        private_addresses=private_addresses,
    )
    _echo(crawled.describe())
    for problem in crawled.problems:
        _complain(problem)
    if crawled.crawl.may_pass:
        raise ToolbankError(
            "the crawl is not complete. The same command asks for what is missing."
        )


@app.command(
    epilog="Example: toolbank run quickstart --out runs/rules --set generate.engine=rules "
    "--set generate.queries=3000"
)
def run(
    recipe: RecipeArgument,
    out: OutOption = None,
    settings: SetOption = None,
    start: Annotated[
        Stage | None,
        typer.Option("--from", help="Do this stage anew and go on from it."),
    ] = None,
    until: Annotated[Stage | None, typer.Option(help="Stop after this stage.")] = None,
) -> None:
    """Run all stages of a recipe that are not done yet."""
    _run(recipe, out, settings, start=start, until=until)


@app.command(
    epilog="Example: toolbank generate quickstart --out runs/new --set generate.engine=openai "
    "--set generate.base_url=http://127.0.0.1:8000/v1 --set generate.model=llama-3.3-70b"
)
def generate(
    recipe: RecipeArgument, out: OutOption = None, settings: SetOption = None
) -> None:
    """Collect the tools and make the bank; no further stage."""
    _run(recipe, out, settings, until=Stage.generate)


@app.command(epilog="Example: toolbank preview quickstart --set generate.engine=rules")
def preview(
    recipe: RecipeArgument,
    out: OutOption = None,
    settings: SetOption = None,
    count: Annotated[int, typer.Option(min=1, help="How many attempts.")] = 5,
) -> None:
    """Show a few prompts, the replies, and what the checks say of them; keep nothing."""
    from toolbank.commands.preview import preview_attempts
    from toolbank.recipe import load_recipe

    loaded = load_recipe(recipe, settings or ()).recipe
    for shown in preview_attempts(loaded, _folder(recipe, out, loaded.name), count):
        _echo(shown)


@app.command(epilog="Example: toolbank show runs/quickstart numpy-000012")
def show(
    run: RunArgument,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="ID", help="The id of a query, or the number of an attempt."
        ),
    ] = None,
) -> None:
    """Show how the attempts of a run ended, or all prompts and replies of one."""
    from toolbank.commands.show.show import show_attempt, show_outcomes

    _echo(show_outcomes(run) if name is None else show_attempt(run, name))


@app.command(epilog="Example: toolbank judge runs/quickstart --set judge.pairs=300")
def judge(
    recipe: RecipeArgument, out: OutOption = None, settings: SetOption = None
) -> None:
    """Compare the run's polished queries with their drafts, or with another dataset."""
    _run(recipe, out, settings, start=Stage.judge, until=Stage.judge)


@app.command(epilog="Example: toolbank train runs/quickstart")
def train(
    recipe: RecipeArgument, out: OutOption = None, settings: SetOption = None
) -> None:
    """Build the retrievers of a run on its bank."""
    _run(recipe, out, settings, start=Stage.retrievers, until=Stage.retrievers)


@app.command(
    epilog="Example: toolbank evaluate runs/quickstart --on requests.jsonl --out metrics.json"
)
def evaluate(
    run: RunArgument,
    on: Annotated[
        list[Path] | None,
        typer.Option(help="A labelled JSONL file (query, tools a line); repeatable."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the records here as JSON.")
    ] = None,
) -> None:
    """Evaluate a finished run's retrievers on labelled requests, or on its test split."""
    from toolbank.commands.evaluate import evaluate_run

    _echo(evaluate_run(run, on or [], out))


@app.command(epilog="Example: toolbank report runs/quickstart")
def report(
    recipe: RecipeArgument, out: OutOption = None, settings: SetOption = None
) -> None:
    """Write the HTML report of a run."""
    _run(recipe, out, settings, start=Stage.report, until=Stage.report)


@app.command(epilog="Example: toolbank plan quickstart --set generate.engine=rules")
def plan(
    recipe: RecipeArgument, out: OutOption = None, settings: SetOption = None
) -> None:
    """Say what a run would do, and what calls, tokens, money and time; call no model."""
    from toolbank.commands.plan.plan import describe_plan
    from toolbank.recipe import load_recipe

    loaded = load_recipe(recipe, settings or ())
    _echo(describe_plan(loaded, _folder(recipe, out, loaded.recipe.name)))


@app.command(
    epilog='Example: toolbank search runs/quickstart "middle value of house prices, ignoring blanks"'
)
def search(
    run: RunArgument,
    query: Annotated[
        str | None, typer.Argument(help="A request, in your own words.")
    ] = None,
    k: Annotated[int, typer.Option("--k", "-k", min=1, help="How many tools.")] = 5,
    retriever: Annotated[
        str | None,
        typer.Option(help="If not given, the best on the validation queries."),
    ] = None,
    queries: Annotated[
        Path | None, typer.Option(help="A JSONL file of requests (id, query a line).")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where the hits of --queries go.")
    ] = None,
) -> None:
    """Find the tools that a request needs."""
    from toolbank.search import format_hits, load, write_hits

    if (query is None) == (queries is None):
        raise typer.BadParameter(
            "Give a request, or --queries FILE.jsonl, and not both."
        )
    if (queries is None) != (out is None):
        raise typer.BadParameter("--queries FILE and --out FILE go together.")
    if query is not None and not query.strip():
        raise typer.BadParameter("The request is empty.")
    finder = load(run, retriever)
    if retriever is None:
        say(f"by {finder.retriever.name}; another: --retriever NAME")
    if query is not None:
        _echo(format_hits(finder.search(query, k)))
    elif queries is not None and out is not None:
        count = write_hits(finder, queries, k, out)
        _echo(f"Wrote the hits of {count:,} requests to {out}")


@app.command(
    epilog="Example: toolbank export runs/quickstart --format datasets --out numpy-bank"
)
def export(
    run: RunArgument,
    out: Annotated[Path, typer.Option(help="The folder to write to.")],
    form: Annotated[
        ExportFormat, typer.Option("--format", help="How the bank is written.")
    ] = ExportFormat.datasets,
) -> None:
    """Write a run's bank in another format."""
    from toolbank.commands.evaluate import export_run

    for path in export_run(run, form.value, out):
        _echo(f"Wrote {path}")


@app.command(epilog="Example: toolbank schema > recipe.schema.json")
def schema(
    markdown: Annotated[
        bool, typer.Option("--markdown", help="As a page of tables for people.")
    ] = False,
) -> None:
    """Print the JSON Schema of a recipe, for editors that check and complete YAML."""
    import json

    from toolbank.commands.keys import describe_keys
    from toolbank.recipe import recipe_schema

    found = recipe_schema()
    _echo(describe_keys(found) if markdown else json.dumps(found, indent=2))


def _run(
    name: str,
    out: Path | None,
    settings: list[str] | None,
    *,
    start: Stage | None = None,
    until: Stage | None = None,
) -> None:
    from toolbank.training.ranks import rank

    if rank() > 0:
        from toolbank.run.fit import take_part

        return take_part()
    from toolbank.recipe import load_recipe
    from toolbank.run.fit import leading
    from toolbank.run.result import describe_result
    from toolbank.run.run import run_recipe

    with leading():
        loaded = load_recipe(name, settings or ())
        result = run_recipe(
            loaded,
            _folder(name, out, loaded.recipe.name),
            start=start.value if start else None,
            until=until.value if until else None,
        )
    return _echo(describe_result(result))


def _folder(name: str, out: Path | None, recipe_name: str) -> Path:
    from toolbank.recipe import is_run_folder

    if out is None and is_run_folder(Path(name)):
        return Path(name)
    return out or Path("runs") / recipe_name


def main() -> None:
    """Run the command line; errors for people go to stderr, without a traceback."""
    gc.set_threshold(_OBJECTS_BEFORE_COLLECTION)
    try:
        app()
    except ToolbankError as error:
        # It is over; one more Ctrl-C would only put a traceback below the message.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _complain(str(error))
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except OSError as error:
        _complain(f"{error.filename or 'the system'}: {error.strerror or error}.")
        sys.exit(1)
    except KeyboardInterrupt:
        _complain("stopped.")
        sys.exit(1)


def _complain(message: str) -> None:
    say(f"toolbank: {message}")


def _echo(text: str) -> None:
    typer.echo(printable(text))
