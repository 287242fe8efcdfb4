"""Read ToolBank's published columns, as files or as a DatasetDict."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from toolbank.bank.bank import SkipCounter
from toolbank.bank.files import read_tools
from toolbank.bank.function_reader import describe_tool, read_entry
from toolbank.bank.records import Query, Split, Tool, function_name, hashed_name
from toolbank.datasets.gather import Dataset, gather
from toolbank.datasets.jsonl import read_tool_lines
from toolbank.datasets.kind import SPLITS, DatasetConfig, DatasetKind
from toolbank.datasets.rows import find_tables, read_rows
from toolbank.system.errors import InputError
from toolbank.system.files import get_texts, read_json
from toolbank.system.text import replace_surrogates

_STEM = re.compile(rf"({'|'.join(SPLITS)})(?:[-_.].*)?")
_KINDS = (".json", ".jsonl", ".parquet")

_Row = tuple[str, dict[str, Any]]


class ToolbankConfig(DatasetConfig):
    """The files of the dataset ToolBank (not this program), and a file that describes the tools."""

    type: Literal["toolbank"]
    tools: Path | None = Field(
        default=None,
        description="JSON file or tools.parquet that describes the tools",
    )


def read_toolbank(config: ToolbankConfig) -> Dataset:
    """Read queries with refined_instruction, functions and explanation (arXiv 2409.02141).

    The folder is a DatasetDict as `toolbank export` writes it, or holds {train,validation,test}
    as JSON, JSONL or parquet, also in parts (train-00000-of-00002.parquet) and in `data/`. An empty
    refined_instruction is replaced by the draft `instruction`. `config.tools`, or else the folder's
    tools.jsonl, describes the tools: a tools.parquet of a run, a JSONL file, JSON of the form {name:
    {new_func, description}}, or a JSON list of {name, description, parameters}, also in the
    function-calling format. Functions may be named by name, by new_func, or by a name that the
    function-calling format turns into the tool's; entries that share a new_func are one tool.

    Raises:
        InputError: a file can't be read, or has broken rows.
    """
    left_out = SkipCounter()
    tools = _read_descriptions(_tools_file(config), left_out)
    queries: list[Query] = []
    splits = (
        _read_dataset_dict(config.path)
        if _is_dataset_dict(config.path)
        else ((split, read_rows(path)) for split, path in _split_files(config.path))
    )
    for split, rows in splits:
        for place, row in rows:
            queries.append(_parse_query(row, f"{split}-{len(queries)}", split, place))
    return gather(_add_full_names(tools, queries), queries, left_out)


def toolbank_files(config: ToolbankConfig) -> tuple[Path, ...]:
    """The files that are read."""
    if _is_dataset_dict(config.path):
        arrow = (p for p in config.path.rglob("*") if p.suffix in (".arrow", ".json"))
        return (*sorted(arrow), _tools_file(config))
    return (*(path for _, path in _split_files(config.path)), _tools_file(config))


def _tools_file(config: ToolbankConfig) -> Path:
    if config.tools is None and not (config.path / "tools.jsonl").is_file():
        raise InputError(
            f"{config.path}: no tools.jsonl. Set dataset.tools to a file that describes the tools: "
            "the bank/tools.parquet of a run, or ToolBank's JSON of function descriptions."
        )
    return config.tools or config.path / "tools.jsonl"


def _read_descriptions(path: Path, left_out: SkipCounter) -> list[Tool]:
    if path.suffix == ".parquet":
        return list(read_tools(path))
    if path.suffix == ".jsonl":
        return read_tool_lines(path)
    content = read_json(path)
    if isinstance(content, list):
        numbered = enumerate(content, start=1)
        return [_parse_entry(entry, f"{path}, entry {n}") for n, entry in numbered]
    if not isinstance(content, dict):
        raise InputError(
            f"{path}: neither an object of descriptions by name, nor a list of tools."
        )
    tools: dict[str, Tool] = {}
    for key, entry in content.items():
        described = {"description": entry} if isinstance(entry, str) else entry
        if not isinstance(described, dict) or not isinstance(
            described.get("description", ""), str
        ):
            raise InputError(f"{path}: {key!r} has no description that is a string.")
        name = replace_surrogates(key)
        other = replace_surrogates(str(described.get("new_func") or name))
        if other in tools:
            left_out.add("tool: named as another", f"{name}: {other}")
            first = tools[other]
            tools[other] = first.model_copy(update={"aliases": (*first.aliases, name)})
        else:
            tools[other] = describe_tool(
                name,
                replace_surrogates(described.get("description", "")),
                aliases=() if other == name else (other,),
            )
    return list(tools.values())


def _parse_entry(entry: Any, place: str) -> Tool:
    try:
        return read_entry(entry)
    except ValueError as error:
        raise InputError(f"{place}: {error}.") from error


def _add_full_names(tools: list[Tool], queries: list[Query]) -> list[Tool]:
    """The tools, with the full names in queries that the function-calling format shortens."""
    known = {tool.name for tool in tools}
    known |= {alias for tool in tools for alias in tool.aliases}
    full: dict[str, str] = {}
    for name in (name for query in queries for name in query.tools):
        if name not in known:
            known.add(name)
            # An export uses the second name if another tool has the first.
            full.setdefault(function_name(name), name)
            full.setdefault(hashed_name(name), name)
    return [
        tool.model_copy(update={"aliases": (*tool.aliases, full[tool.name])})
        if tool.name in full
        else tool
        for tool in tools
    ]


def _is_dataset_dict(folder: Path) -> bool:
    return (folder / "dataset_dict.json").is_file()


def _split_files(folder: Path) -> list[tuple[Split, Path]]:
    files = [
        (SPLITS[match[1]], path)
        for path in find_tables(folder, "*.*")
        if path.suffix in _KINDS and (match := _STEM.fullmatch(path.stem))
    ]
    if not files:
        raise InputError(
            f"{folder}: no train, validation or test as .json, .jsonl or .parquet, and no "
            "dataset_dict.json."
        )
    order = list(SPLITS.values())
    return sorted(files, key=lambda file: order.index(file[0]))


def _read_dataset_dict(folder: Path) -> Iterator[tuple[Split, Iterable[_Row]]]:
    import datasets

    try:
        splits = datasets.load_from_disk(str(folder))
        for name, rows in splits.items():
            if name not in SPLITS:
                raise InputError(f"{folder}: a split {name!r}; expected train or test.")
            numbered = enumerate(rows, start=1)
            places = ((f"{folder / name}, row {n}", row) for n, row in numbered)
            yield SPLITS[name], places
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{folder}: not a DatasetDict on disk ({error}).") from error


def _parse_query(row: dict[str, Any], name: str, split: Split, place: str) -> Query:
    text = row.get("refined_instruction") or row.get("instruction", "")
    is_named = "refined_instruction" in row or "instruction" in row
    if not is_named or not isinstance(text or "", str):
        raise InputError(f"{place}: no refined_instruction that is a string.")
    try:
        functions = get_texts(row, "functions")
    except ValueError as error:
        raise InputError(f"{place}: {error}.") from error
    return Query(
        id=str(row.get("id") or name),
        query=text or "",
        draft=str(row.get("draft") or ""),
        tools=functions,
        explanation=str(row.get("explanation") or ""),
        domain=str(row.get("domain") or ""),
        split=split,
    )


KIND = DatasetKind(ToolbankConfig, read_toolbank, toolbank_files)
