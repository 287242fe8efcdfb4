"""Export a bank to a folder in one of several formats."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from toolbank.bank.bank import (
    Bank,
    Label,
    LabelledQuery,
    QueryLabels,
    apply_labels,
    group_labels,
    read_labels,
    read_profiles,
)
from toolbank.bank.files import read_asks, read_records
from toolbank.bank.function_writer import gemini_name, wrap_functions, write_function
from toolbank.bank.profile import AXES, QueryProfile
from toolbank.bank.records import Ask, Query, Record, Split, Tool, name_functions
from toolbank.system.errors import InputError
from toolbank.system.files import atomic_path, write_json, write_text
from toolbank.system.folders import FolderKind, replacing
from toolbank.system.text import fill_template


def select_split(bank: Bank, split: Split) -> list[LabelledQuery]:
    """Select the queries of a split with their merged labels, without excluded ones.

    Queries without a split are for training, unless the bank was split.
    """
    other = None if "splits" in bank.info else "train"
    return [
        apply_labels(query, bank.verified.get(query.id), bank.profiles)
        for query in bank.queries
        if (query.split or other) == split and not is_aside(query, bank.verified)
    ]


def is_aside(query: Query, verified: Mapping[str, QueryLabels]) -> bool:
    """Whether verification excluded a query."""
    return query.id in verified and bool(verified[query.id].aside)


def dataset_card(bank: Bank) -> str:
    """Write the README.md of a bank as a dataset: content, columns, and how to load it."""
    return fill_template(
        "datasets/card.md.j2",
        domains=[_plain(d) for d in sorted({q.domain for q in bank.queries} - {""})],
        engines=[_plain(e) for e in sorted({_writer(q) for q in bank.queries} - {""})],
        splits={split: len(select_split(bank, split)) for split in _SPLITS},
        n_tools=len(bank.tools),
        n_unused=sum(q.split is None for q in bank.queries)
        if "splits" in bank.info
        else 0,
        n_asks=len(bank.asks),
        n_aside=sum(bool(one.aside) for one in bank.verified.values()),
        has_labels=bool(bank.labels),
        is_written=any(query.provenance for query in bank.queries),
        is_polished=any(query.draft for query in bank.queries),
        ordered=bank.info.get("ordered"),
    )


def _writer(query: Query) -> str:
    made = query.provenance
    return f"{made.engine} {made.model}".strip() if made else ""


def _plain(text: str) -> str:
    """Foreign text on one line that can't become Markdown structure."""
    return json.dumps(text, ensure_ascii=False)[1:-1].replace("<", "&lt;")


EXPORT = FolderKind("export", former="toolbank-export.json")

_TOOL_COLUMNS = ("functions", "functions_first")
_SPLITS: tuple[Split, ...] = ("train", "validation", "test")


def export_bank(bank: Bank, form: str, folder: Path) -> list[Path]:
    """Write a bank to a folder in one of `FORMATS`, and return the files.

    - datasets: a DatasetDict on disk (`datasets.load_from_disk`), its card README.md, the
      tools as tools.jsonl, and the asks, if any, as asks.jsonl
    - jsonl: tools.jsonl, queries.jsonl and, if there are asks, asks.jsonl, all fields
    - toolbank: train.json, validation.json and test.json, each a list of objects with the
      published columns refined_instruction, functions and explanation; asks.json, the same of
      requests for one tool, which are of no split
    - functions: functions.json, the tools in the function-calling format, each under a unique
      name; and function_names.json, which maps these names to the tools' names
    - anthropic, gemini, mcp: the same in their forms; cut.json lists by tool what its schemas lost

    Queries have their merged labels as tools. If the labels were verified, datasets and jsonl also
    have the first labels (`functions_first`, `tools_first`) and labels.jsonl, and excluded queries
    are in aside.jsonl; toolbank skips them.

    The files are complete before they replace an earlier export.

    Raises:
        InputError: the format is unknown, or the folder has other files.
        ToolbankError: the folder can't be written to.
    """
    if form not in FORMATS:
        raise InputError(f"No export format {form!r}; there are: {', '.join(FORMATS)}.")
    return _write(folder, form, partial(FORMATS[form], bank))


def export_folder(bank: Path, form: str, folder: Path) -> list[Path]:
    """Export a bank's folder as `export_bank` does; jsonl is streamed row by row.

    Raises:
        InputError: a file of the bank is missing, damaged, or not of this layout; or as of
            `export_bank`.
        ToolbankError: as of `export_bank`.
    """
    if form != "jsonl":
        return export_bank(Bank.load(bank), form, folder)
    return _write(
        folder,
        form,
        partial(
            _write_jsonl,
            tools=read_records(bank / "tools.parquet", Tool),
            read_queries=partial(read_records, bank / "queries.parquet", Query),
            asks=read_asks(bank / "asks.parquet"),
            labels=read_labels(bank / "labels.parquet"),
            profiles=read_profiles(bank),
        ),
    )


_OPTIONAL = {
    **dict.fromkeys(
        ("datasets", "jsonl"), ("asks.jsonl", "labels.jsonl", "aside.jsonl")
    ),
    "toolbank": ("asks.json",),
}
"""Files of a form that only some banks have; those of an earlier export are removed."""


def _write(folder: Path, form: str, write: Callable[[Path], None]) -> list[Path]:
    optional = _OPTIONAL.get(form, ("cut.json",))
    with replacing(folder, EXPORT, optional=optional) as made:
        write(made)
        names = sorted(path.name for path in made.iterdir())
    return [folder / name for name in names]


def _export_datasets(bank: Bank, folder: Path) -> None:
    import datasets
    from datasets.utils import logging as progress

    text = datasets.Value("string")
    columns = list(_row(_EXAMPLE, bank))
    features = datasets.Features(
        dict.fromkeys(columns, text)
        | {name: datasets.List(text) for name in columns if name in _TOOL_COLUMNS}
    )
    splits = datasets.DatasetDict()
    for split in _SPLITS:
        rows = [_row(query, bank) for query in select_split(bank, split)]
        splits[split] = datasets.Dataset.from_dict(
            {column: [row[column] for row in rows] for column in columns},
            features=features,
        )
    was_enabled = progress.is_progress_bar_enabled()
    if not sys.stderr.isatty():
        progress.disable_progress_bar()
    try:
        # Without a number of shards an empty split could not be read.
        splits.save_to_disk(folder, num_shards=dict.fromkeys(_SPLITS, 1))
    finally:
        if was_enabled:
            progress.enable_progress_bar()
    write_text(folder / "README.md", dataset_card(bank))
    _write_lines(folder / "tools.jsonl", bank.tools)
    if bank.asks:
        _write_lines(folder / "asks.jsonl", bank.asks)
    if bank.labels:
        _write_labels(folder, bank.labels, bank.queries, bank.verified)


def _export_jsonl(bank: Bank, folder: Path) -> None:
    _write_jsonl(
        folder, bank.tools, lambda: bank.queries, bank.asks, bank.labels, bank.profiles
    )


def _write_jsonl(
    folder: Path,
    tools: Iterable[Tool],
    read_queries: Callable[[], Iterable[Query]],
    asks: Sequence[Ask],
    labels: Sequence[Label],
    profiles: Mapping[str, QueryProfile],
) -> None:
    verified = group_labels(labels)
    rows = (
        apply_labels(query, verified.get(query.id), profiles)
        if labels or profiles
        else query
        for query in read_queries()
        if not is_aside(query, verified)
    )
    _write_lines(folder / "tools.jsonl", tools)
    _write_lines(folder / "queries.jsonl", rows)
    if asks:
        _write_lines(folder / "asks.jsonl", asks)
    if labels:
        _write_labels(folder, labels, read_queries(), verified)


def _export_toolbank(bank: Bank, folder: Path) -> None:
    for split in _SPLITS:
        rows = [
            _published(query.query, query.tools, query.explanation)
            for query in select_split(bank, split)
        ]
        write_json(folder / f"{split}.json", rows)
    if bank.asks:
        asks = [_published(ask.ask, (ask.tool,)) for ask in bank.asks]
        write_json(folder / "asks.json", asks)


def _export_functions(bank: Bank, folder: Path, form: str = "openai") -> None:
    names = name_functions(bank.tool_names)
    if form == "gemini":
        names = {tool: gemini_name(name) for tool, name in names.items()}
    written = [write_function(tool, form, names[tool.name]) for tool in bank.tools]
    functions = wrap_functions([function for function, _ in written], form)
    write_json(folder / "functions.json", functions)
    write_json(
        folder / "function_names.json", {names[name]: name for name in bank.tool_names}
    )
    cut = {
        tool.name: said
        for tool, (_, said) in zip(bank.tools, written, strict=True)
        if said
    }
    if cut:
        write_json(folder / "cut.json", cut)


TOOL_FORMATS = ("functions", "anthropic", "gemini", "mcp")
"""The forms of tools alone, without requests."""

FORMATS: dict[str, Callable[[Bank, Path], None]] = {
    "datasets": _export_datasets,
    "jsonl": _export_jsonl,
    "toolbank": _export_toolbank,
    "functions": _export_functions,
    **{form: partial(_export_functions, form=form) for form in TOOL_FORMATS[1:]},
}


def _published(
    request: str, tools: Sequence[str], explanation: str = ""
) -> dict[str, Any]:
    return {
        "refined_instruction": request,
        "functions": list(tools),
        "explanation": explanation,
    }


def _row(query: LabelledQuery, bank: Bank) -> dict[str, Any]:
    """The published columns and ours; provenance as JSON, so that every column is plain."""
    provenance = query.provenance.model_dump_json() if query.provenance else ""
    return {
        **_published(query.query, query.tools, query.explanation),
        **({"functions_first": list(query.tools_first)} if bank.labels else {}),
        "id": query.id,
        **{axis: getattr(query, axis) or "" for axis in AXES},
        "draft": query.draft,
        "domain": query.domain,
        "provenance": provenance,
    }


_EXAMPLE = LabelledQuery(id="", query="", tools=())


def _write_labels(
    folder: Path,
    labels: Iterable[Label],
    queries: Iterable[Query],
    verified: Mapping[str, QueryLabels],
) -> None:
    """Write the labels, and the queries that they set aside."""
    _write_lines(folder / "labels.jsonl", labels)
    aside = [query for query in queries if is_aside(query, verified)]
    if aside:
        _write_lines(folder / "aside.jsonl", aside)


def _write_lines(path: Path, records: Iterable[Record]) -> None:
    with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        for record in records:
            content = record.model_dump(mode="json", by_alias=True)
            file.write(json.dumps(content, ensure_ascii=False) + "\n")
