"""A recipe's source, and its name, from what a user points at."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import urlsplit

from toolbank.config.base import anchor_paths
from toolbank.sources import SOURCES
from toolbank.sources.kind import Collected, SourceConfig
from toolbank.sources.recognise import recognise
from toolbank.system.errors import InputError
from toolbank.system.net import is_url

_BARE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_NO_NAME = re.compile(r"[^A-Za-z0-9._-]+")
_ENDINGS = (".json", ".jsonl", ".ndjson", ".yaml", ".yml", ".csv", ".tsv", ".parquet")


@dataclass(frozen=True)
class Given:
    """What `init` was given: the recipe's name, and the source that was recognised, if any."""

    name: str
    source: SourceConfig | None = None


def find_given(first: str, second: str | None, has_source: bool) -> Given:
    """Tell name and API apart; a single text is the API where it is recognised as one.

    Raises:
        InputError: nothing that tools can be read from.
    """
    if second is not None:
        return Given(first, recognise(second))
    if has_source:
        return Given(first)
    try:
        source = recognise(first)
    except InputError:
        if _BARE_NAME.fullmatch(first) and not Path(first).exists():
            return Given(first)
        raise
    return Given(_name_recipe(source), source)


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


def read_ahead(source: SourceConfig) -> Collected | str:
    """The tools that a source gives, or why they are not read for a recipe yet.

    Raises:
        InputError, ToolbankError: they can't be read.
    """
    from toolbank.commands.tools.read import read_source

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
