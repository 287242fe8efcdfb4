"""What says whose files lie in a retriever's folder: config.json and tools.json."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from toolbank.retrievers.kind import RetrieverConfig
from toolbank.retrievers.stored import AGAIN, demand
from toolbank.system.errors import InputError
from toolbank.system.files import read_json, write_json

LAYOUT = 2
"""Of the files of a saved retriever; those of another can't be read."""

CONFIG, _TOOLS = "config.json", "tools.json"


def write_head(folder: Path, config: RetrieverConfig, tools: Sequence[str]) -> None:
    """Write the settings and the tools' names."""
    settings = config.model_dump(mode="json")
    write_json(folder / CONFIG, {"layout": LAYOUT, **settings})
    write_json(folder / _TOOLS, list(tools))


def is_retriever(folder: Path) -> bool:
    """Whether a folder holds a saved retriever."""
    return (folder / CONFIG).is_file()


def read_settings(folder: Path) -> dict[str, Any]:
    """The settings of a saved retriever, as they are written; its `type` among them.

    Raises:
        InputError: the file is missing or damaged, or of another layout.
    """
    path = folder / CONFIG
    content = read_json(path)
    is_head = isinstance(content, dict) and isinstance(content.get("type"), str)
    demand(is_head, path, 'no "type" in it')
    if content.pop("layout", None) != LAYOUT:
        raise InputError(f"{folder}: saved by another version of toolbank. {AGAIN}")
    return dict(content)


def read_config(
    folder: Path, kind: type[RetrieverConfig], settings: dict[str, Any]
) -> RetrieverConfig:
    """The settings as a method's configuration.

    Raises:
        InputError: they are none.
    """
    try:
        return kind.model_validate(settings)
    except ValidationError as error:
        wrong = "; ".join(
            f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()
        )
        raise InputError(
            f"{folder / CONFIG}: not a {kind.__name__} ({wrong}). {AGAIN}"
        ) from error


def read_tools(folder: Path) -> tuple[str, ...]:
    """The tools' names.

    Raises:
        InputError: the file is missing or damaged.
    """
    names = read_json(folder / _TOOLS)
    is_list = isinstance(names, list) and all(isinstance(name, str) for name in names)
    demand(is_list, folder / _TOOLS, "not a list of names")
    return tuple(names)
