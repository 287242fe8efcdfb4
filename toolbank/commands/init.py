"""`toolbank init`."""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer
import yaml

from toolbank.commands.options import echo
from toolbank.commands.tools import read_source, summarise
from toolbank.config.assets import shipped
from toolbank.config.base import anchor_paths
from toolbank.config.explain import explaining
from toolbank.datasets import find_format
from toolbank.llm.config import find_grants
from toolbank.requests.write.config import GenerateConfig
from toolbank.run.recipe import SCHEMA_FILE, Recipe, recipe_schema
from toolbank.sources import SOURCES
from toolbank.sources.collect import describe_package, recognise
from toolbank.sources.kind import SourceConfig, ToolCollection
from toolbank.system.consent import explain_missing, find_missing
from toolbank.system.errors import InputError
from toolbank.system.files import write_text
from toolbank.system.net import is_url
from toolbank.system.outputs import check_new_file


def describe_source(
    source: SourceConfig, found: ToolCollection | str, recipe: Path
) -> str:
    """What it is, how many tools it has, what is missing, and how many others were left out."""
    if isinstance(found, str):
        return f"Found {source.label}. {found}"
    left_out = sum(
        number
        for one in found.info["sources"]
        for number in one.get("left_out", {}).values()
    )
    lines = [f"Found {source.label}:", *summarise(found.tools)]
    if left_out or found.problems:
        lines.append(
            f"Left out: {left_out:,}, or read in part. All of them: toolbank tools {recipe}"
        )
    return "\n".join(lines)


_BARE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_NO_NAME = re.compile(r"[^A-Za-z0-9._-]+")
_ENDINGS = (
    *(".json", ".jsonc", ".jsonl", ".ndjson", ".yaml", ".yml", ".toml"),
    *(".csv", ".tsv", ".parquet"),
)


def find_given(
    first: str, second: str | None, has_source: bool
) -> tuple[str, SourceConfig | None]:
    """Return the recipe's name, and the API if there is one.

    A single text is the API where it is recognised as one.

    Raises:
        InputError: nothing that tools can be read from.
    """
    if second is not None:
        return first, recognise(second)
    if has_source:
        return first, None
    try:
        source = recognise(first)
    except InputError:
        if _BARE_NAME.fullmatch(first) and not Path(first).exists():
            return first, None
        raise
    return _name_recipe(source), source


def entry(source: SourceConfig, folder: Path) -> dict[str, Any]:
    """What a recipe in this folder says of a source; relative paths start there."""
    data = source.model_dump(mode="json", exclude_unset=True)
    anchored = anchor_paths(data, type(source).model_json_schema(), Path.cwd())
    home = folder.resolve()
    moved = {
        key: os.path.relpath(value, home)
        for key, value in anchored.items()
        if value != data[key]
    }
    return {"type": source.type, **data, **moved}


def has_query(source: SourceConfig) -> bool:
    """Whether an address of the source has a query, which may be a secret."""
    values = source.model_dump(mode="json", exclude_unset=True).values()
    urls = (one for one in values if isinstance(one, str) and is_url(one))
    return any(urlsplit(url).query for url in urls)


def read_ahead(source: SourceConfig) -> ToolCollection | str:
    """The tools that a source gives, or why they are not read for a recipe yet.

    Raises:
        InputError, ToolbankError: they can't be read.
    """
    kind = SOURCES.find(source.type, "sources")
    if kind.keeps:
        return "Its pages are read one after another, as its tools are asked for."
    if kind.starts(source):
        return "Reading its tools starts a command; you are asked for your word."
    return read_source(source)


def _name_recipe(source: SourceConfig) -> str:
    called = source.api_name or source.label.partition(":")[2]
    if is_url(called):
        called = urlsplit(called).hostname or ""
    path = PurePath(called)
    if path.suffix.lower() in _ENDINGS:
        called = path.stem
    return _NO_NAME.sub("-", called).strip("-._") or "mine"


_HEAD = """\
# yaml-language-server: $schema={schema}
# A recipe says all of a run. Check it with: toolbank plan {file}
# Every key, with its type and default: toolbank schema --markdown
name: {name}
"""

_MADE = """
# Where the tools come from. Several sources make one bank.
sources:{source}

# Who writes the requests. The key is read from the environment variable OPENAI_API_KEY
# (another one: api_key_env). With `engine: rules` requests are written from the reference's
# own words: no model, no key, and less like a person's.
generate:
{generate}
  queries: 1000
  # The shares of requests that need one tool, two tools and so on.
  tools_per_query: {{{shares}}}
  # Offer tools so that almost every request needs a different set of them.
  distinct_sets: true
{hints}
# Requests for each tool by itself, by the same engine: one call a tool.
asks: {{}}

# How tools are found. BM25, descriptions and nearest requests are added, to compare with.
retrievers:
  # Its encoder is fine-tuned first, in minutes on two processor cores.
  - type: tool2vec{encoder}
    training: {{epochs: 1, pairs: [query-description], max_length: 64}}
  - type: bm25
    name: bm25-requests
    requests: true
  - type: fusion
    first_stage: tool2vec
    beside: [bm25-requests]

# Requests of your own users, labelled with the tools they need, are the best test there is.
# A line each: {{"query": "...", "tools": ["name", ...]}}
# evaluate:
#   on: [requests.jsonl]
"""

_TAKEN = """
# The tools, and requests that are labelled with them; nothing is generated.
dataset:
{dataset}
  # Whether the tools of a request stand in the order of calls:
  # ordered: true

# Shares of the requests that are held back, where the data have no splits of their own.
# With {{validation: 0, test: 1}} all are the test, and nothing is trained.
# split: {{validation: 0.1, test: 0.1}}
"""

_ADAPTED = """
    # all-MiniLM-L6-v2, adapted to how people ask for tools, on NumPy, pandas and AWS.
    encoder: toolbank"""
# Whoever measures on an API that the adapter has seen would be misled.
_SEEN = ("numpy", "pandas", "boto")

_SHARES = "1: .25, 2: .35, 3: .25, 4: .15"
# Without a model nobody sees what else could go together; one tool always serves a request.
_RULES_SHARES = "1: .3, 2: .45, 3: .25"

_HINTS = """\
  # Dollars a million tokens of your model, for `toolbank plan`, budgets and the report:
  # price: {input: 0.15, output: 0.60}
  # Where to end with what there is: calls, tokens, dollars, or minutes.
  # budget: {dollars: 20}
  # Calls in flight are as many as the endpoint takes (auto); a number is a bound.
  # concurrency: 32
"""


def write_recipe(
    path: Path,
    *,
    name: str,
    source: dict[str, Any] | None = None,
    dataset: Path | None = None,
    base_url: str | None = None,
    model: str | None = None,
) -> list[Path]:
    """Write a commented recipe, and its schema beside it if there is none yet; gives both paths.

    `source` is an entry of the key `sources`, and `dataset` a folder of tools and labelled
    requests. What isn't given is left empty, and then `plan` says what to fill in.

    Raises:
        InputError: the file is there already, the folder holds no dataset, or one of the values
            can't stand in a recipe.
    """
    check_new_file(path)
    if dataset and (base_url or model):
        raise InputError(
            "--dataset brings requests with it, so that none is generated: leave --base-url and "
            "--model out."
        )
    body = _take(dataset, path) if dataset else _make(source, base_url, model)
    schema = path.with_name(SCHEMA_FILE)
    head = _HEAD.format(schema=SCHEMA_FILE, file=path, name=_scalar(name))
    data = yaml.safe_load(head + body)
    with explaining(recipe_schema(), "init"):
        # Where no source is given yet, the rest is checked.
        stand_in = {} if dataset or data["sources"] else {"sources": [_STAND_IN]}
        Recipe.model_validate({**data, **stand_in})
    write_text(path, head + body)
    if os.path.lexists(schema):
        return [path]
    write_text(schema, json.dumps(recipe_schema(), indent=2) + "\n")
    return [path, schema]


_STAND_IN = {"type": "python", "package": "json"}


def _make(
    source: dict[str, Any] | None, base_url: str | None, model: str | None
) -> str:
    """The part of a recipe that has a bank made."""
    if base_url or model:
        generate = {
            "engine": "openai",
            "base_url": base_url or "https://api.openai.com/v1",
            "model": model or "",
        }
    else:
        generate = {"engine": "rules"}
    choices = " []  # such as [{type: openapi, spec: FILE}], or [{type: python, package: NAME}]"
    places = str(source).lower()
    return _MADE.format(
        source="\n" + _indented([source], 2) if source else choices,
        generate=_indented(generate, 2),
        encoder="" if any(api in places for api in _SEEN) else _ADAPTED,
        shares=_SHARES if base_url or model else _RULES_SHARES,
        hints=_HINTS if base_url or model else "",
    )


def _take(folder: Path, recipe: Path) -> str:
    """The part of a recipe that takes the bank of a dataset."""
    config = find_format(folder)
    path = os.path.relpath(folder.resolve(), recipe.parent.resolve())
    return _TAKEN.format(dataset=_indented({"type": config.type, "path": path}, 2))


def copy_prompts(folder: Path) -> list[Path]:
    """Copy the prompt templates and examples that are not there yet into `folder`."""
    copied = []
    for origin in sorted(shipped("prompts").rglob("*")):
        target = folder / origin.relative_to(shipped("prompts"))
        if origin.is_file() and not os.path.lexists(target):
            write_text(target, origin.read_text(encoding="utf-8"))
            copied.append(target)
    return copied


def _indented(value: object, spaces: int) -> str:
    text = yaml.safe_dump(value, sort_keys=False).rstrip()
    return "\n".join(" " * spaces + line for line in text.splitlines())


def _scalar(text: str) -> str:
    return str(yaml.safe_dump(text)).removesuffix("\n...\n").strip()


def init(
    name: Annotated[
        str,
        typer.Argument(
            help=(
                "Name of the recipe and of its runs. If you give only an API, the recipe is "
                "named after it."
            )
        ),
    ],
    api: Annotated[
        str | None, typer.Argument(help="The API, in one of the forms above.")
    ] = None,
    package: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="An installed Python package to read."),
    ] = None,
    site: Annotated[
        str | None,
        typer.Option(
            metavar="SITE", help="The site that crawlers/SITE.yaml describes."
        ),
    ] = None,
    sphinx: Annotated[
        str | None, typer.Option(metavar="URL", help="Any other Sphinx site to crawl.")
    ] = None,
    dataset: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="A folder or file with tools and labelled requests that you have already.",
        ),
    ] = None,
    base_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Address of your model's OpenAI-compatible endpoint."
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="The model's name there.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The file to write the recipe to. Default: NAME.yaml."
        ),
    ] = None,
    prompts: Annotated[
        bool,
        typer.Option(
            "--prompts",
            help="Also copy the prompts to `prompts` beside the recipe, to change them.",
        ),
    ] = False,
) -> None:
    """Write a recipe for your API."""
    options = [
        {"type": "python", "package": package},
        {"type": "sphinx", "site": site},
        {"type": "sphinx", "base_url": sphinx},
    ]
    named = [option for option in options if all(option.values())]
    called, source = find_given(name, api, bool(named or dataset))
    if len(named) + bool(source) + bool(dataset) > 1:
        raise InputError(
            "Give one API, or one of --package, --site, --sphinx and --dataset; put a second "
            "source into the file."
        )
    found = read_ahead(source) if source else None
    path = out or Path(f"{called}.yaml")
    if source:
        named = [entry(source, path.parent)]
    path, *others = write_recipe(
        path,
        name=called,
        source=named[0] if named else None,
        dataset=dataset,
        base_url=base_url,
        model=model,
    )
    if source and found:
        echo(describe_source(source, found, path))
        for line in describe_package(api or name):
            echo(line)
    if not (named or dataset):
        echo(
            f"No file, folder or installed package is called {called}, so the recipe has no "
            f"sources yet. Write them into it, or name an API: toolbank init {called} API"
        )
    unread = isinstance(found, str)
    following = f"run {path} --until sources" if unread else f"plan {path}"
    echo(f"Wrote {path}. Look it over, then: toolbank {following}")
    if source and has_query(source):
        echo(
            f"The address has a query, which stands in {path} now and comes into every run's copy. "
            "If it is a secret, delete that file, download the document and give its path."
        )
    # An address that is not valid is refused by the first call.
    with suppress(InputError):
        grants = find_grants(GenerateConfig(base_url=base_url)) if base_url else ()
        if missing := find_missing(grants):
            echo(explain_missing(missing, str(path)))
    if prompts:
        others += copy_prompts(path.parent / "prompts")
    for other in others:
        echo(f"Wrote {other}")
