"""`toolbank tools`."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from toolbank.bank.records import Tool
from toolbank.commands.options import (
    ApiArgument,
    SetOption,
    complain,
    echo,
    find_folder,
)
from toolbank.config.assets import has_asset
from toolbank.datasets import DATASETS
from toolbank.run.folder import RunFolder
from toolbank.run.recipe import load_recipe
from toolbank.run.stages.sources import SourcesStage, kept_tools
from toolbank.sources.collect import collect_tools, describe_package, recognise
from toolbank.sources.kind import SourceConfig, ToolCollection
from toolbank.system.errors import InputError
from toolbank.system.folders import is_run_folder
from toolbank.system.net import is_url
from toolbank.system.numbers import count
from toolbank.system.terminal import one_line

_LONGEST_NAME = 48
_LONGEST_LINE = 1000
_NARROWEST = 20


def tabulate(tools: Sequence[Tool]) -> Iterator[str]:
    """A line a tool: name, kind, what is missing, and its summary as wide as the terminal."""
    columns = shutil.get_terminal_size((100, 24)).columns
    names = [one_line(tool.name, _LONGEST_LINE) for tool in tools]
    width = min(max(map(len, names), default=0), _LONGEST_NAME)
    kind_width = max((len(tool.kind) for tool in tools), default=0)
    for name, tool in zip(names, tools, strict=True):
        marks = f"({', '.join(missing)}) " if (missing := find_missing(tool)) else ""
        lead = f"{name:<{width}}  {tool.kind:<{kind_width}}  {marks}"
        room = max(columns - len(lead), _NARROWEST)
        said = tool.summary or tool.description
        yield f"{lead}{one_line(said, room)}".rstrip()
    yield ""
    yield from summarise(tools)


def find_missing(tool: Tool) -> list[str]:
    """What a search and a model would want to know of a tool and nothing says."""
    missing = []
    if not tool.summary.strip():
        missing.append("no summary" if tool.description.strip() else "no description")
    if not tool.parameters.get("properties"):
        missing.append("no parameters")
    return missing


def summarise(tools: Sequence[Tool]) -> Iterator[str]:
    """How many tools there are by kind, and of how many something is missing."""
    kinds = Counter(tool.kind for tool in tools)
    by_kind = ", ".join(f"{kind} {number:,}" for kind, number in kinds.most_common())
    yield f"{count(len(tools), 'tool')} ({by_kind})."
    missing = Counter(what for tool in tools for what in find_missing(tool))
    schemas = [
        schema
        for tool in tools
        for schema in tool.parameters.get("properties", {}).values()
    ]
    bare = sum(
        not (
            isinstance(schema, dict) and (schema.get("description") or "$ref" in schema)
        )
        for schema in schemas
    )
    said = [f"{what}: {number:,}" for what, number in missing.most_common()]
    if bare:
        said.append(f"parameters without a description: {bare:,} of {len(schemas):,}")
    yield f"Missing: {'; '.join(said)}." if said else "Nothing is missing."


def describe_left_out(collected: ToolCollection) -> Iterator[str]:
    """Lines on what became no tool: notes, problems, and the counts that none of these says."""
    lines = (*collected.notes, *collected.problems)
    yield from lines
    for source in collected.info.get("sources", ()):
        examples = source.get("left_out_examples", {})
        for reason, number in source.get("left_out", {}).items():
            what = reason.removeprefix("kind ")
            if any(what in line for line in lines):
                continue
            names = ", ".join(map(str, examples.get(reason, ())))
            yield (
                f"{source.get('source')}: {number:,} left out, {reason}"
                f"{names and ', such as '}{names}"
            )


_RECIPE = re.compile(r"^(sources|dataset)\s*:", re.MULTILINE)


def read_given(text: str, settings: Sequence[str] = ()) -> ToolCollection:
    """What is kept of a run, what a recipe's sources give now, or what an API does.

    `settings` change keys of a recipe; with any, the sources of a run are read again.

    Raises:
        InputError: it is none of these, or can't be read; or there is no recipe to change.
        ToolbankError: it can't be read now.
    """
    path = Path(text)
    if is_run_folder(path) and not settings:
        read, chosen = kept_tools(RunFolder(path)), "run"
    elif is_run_folder(path) or _is_recipe(path, text):
        read, chosen = _read_recipe(text, settings), "recipe"
    elif settings:
        raise InputError(
            f"--set {settings[0]}: {text} is not a recipe, and only a recipe has keys to set."
        )
    else:
        read, chosen = read_source(recognise(text)), ""
    return replace(read, notes=(*describe_package(text, chosen), *read.notes))


def find_sources(text: str, settings: Sequence[str] = ()) -> Sequence[SourceConfig]:
    """The sources of what `read_given` reads; none of a URL, which has no files here.

    Raises:
        InputError: as of `read_given`.
    """
    path = Path(text)
    if is_run_folder(path) or _is_recipe(path, text):
        return load_recipe(text, settings).recipe.sources
    return () if is_url(text) else (recognise(text),)


def read_source(source: SourceConfig) -> ToolCollection:
    """The tools of one source; what it keeps beside them is kept nowhere.

    Raises:
        InputError, ToolbankError: as `collect_tools`.
    """
    with tempfile.TemporaryDirectory() as cache:
        return collect_tools([source], Path(cache))


def _is_recipe(path: Path, text: str) -> bool:
    if path.is_file():
        if path.suffix.lower() not in (".yaml", ".yml"):
            return False
        with path.open(encoding="utf-8", errors="replace") as file:
            return bool(_RECIPE.search(file.read(1024 * 1024)))
    return path.parent == Path() and has_asset("recipes", f"{text}.yaml")


def _read_recipe(text: str, settings: Sequence[str]) -> ToolCollection:
    loaded = load_recipe(text, settings)
    recipe = loaded.recipe
    if recipe.dataset is not None:
        kind = DATASETS.find(recipe.dataset.type, "dataset")
        read = kind.read(recipe.dataset)
        source = {"source": recipe.dataset.place, **read.left_out.as_info()}
        return ToolCollection(read.tools, {"sources": [source]})
    folder = RunFolder(find_folder(text, None, recipe.name))
    with loaded.at_work(), tempfile.TemporaryDirectory() as cache:
        if SourcesStage(recipe, folder).is_done:
            return kept_tools(folder)
        return collect_tools(recipe.sources, Path(cache))


def tools(
    given: ApiArgument,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print each tool as a line of JSON.")
    ] = False,
    settings: SetOption = None,
) -> None:
    """List the tools of an API and what is missing in them, without calling a model."""
    collected = read_given(given, settings or ())
    if as_json:
        typer.echo("\n".join(tool.model_dump_json() for tool in collected.tools))
    else:
        echo("\n".join(tabulate(collected.tools)))
    for line in describe_left_out(collected):
        complain(line)
