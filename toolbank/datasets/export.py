"""Write a bank to a folder in one of several formats."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from toolbank.bank.bank import (
    Bank,
    Label,
    LabelledQuery,
    Verified,
    apply_labels,
    group_labels,
    read_labels,
)
from toolbank.bank.files import read_records
from toolbank.bank.function_writer import gemini_name, wrap_functions, write_function
from toolbank.bank.records import Ask, Query, Record, Split, Tool, name_functions
from toolbank.system.errors import InputError
from toolbank.system.files import atomic_path, write_json, write_text
from toolbank.system.folders import FolderKind, replacing

_CARD_SPLITS: tuple[Split, ...] = ("train", "validation", "test")
_PROVENANCE = (
    "its attempt, engine, model, prompt hash, seed, and keys of its calls (JSON)"
)


def select_split(bank: Bank, split: Split) -> list[LabelledQuery]:
    """The queries of a split with their merged labels, but for those that are set aside.

    One without a split is for training, or was left out of it.
    """
    left_out = {"withheld", "straddling", "removed"}
    other = None if bank.info.keys() & left_out else "train"
    return [
        apply_labels(query, bank.verified.get(query.id))
        for query in bank.queries
        if (query.split or other) == split and not is_aside(query, bank.verified)
    ]


def is_aside(query: Query, verified: Mapping[str, Verified]) -> bool:
    """Whether verification set a query aside."""
    return query.id in verified and bool(verified[query.id].aside)


def dataset_card(bank: Bank) -> str:
    """README.md of a bank as a dataset: what it holds, its columns, how to load it."""
    splits = {split: len(select_split(bank, split)) for split in _CARD_SPLITS}
    aside = {query for query, one in bank.verified.items() if one.aside}
    counts = "\n".join(f"| {split} | {n:,} |" for split, n in splits.items())
    domains = sorted({query.domain for query in bank.queries if query.domain})
    engines = sorted({_writer(q) for q in bank.queries} - {""})
    is_written = any(query.provenance for query in bank.queries)
    is_polished = any(query.draft for query in bank.queries)
    asks = (
        f" `asks.jsonl` has {len(bank.asks):,} more, for\none tool each, which are of no split: "
        "they are to train on."
        if bank.asks
        else ""
    )
    labels, first = "", ""
    if bank.labels:
        labels = (
            f"\n`functions` has the merged labels of `labels.jsonl`: people's, else a model's, else "
            f"the first ones,\nwhich are `functions_first`. {len(aside):,} requests were set aside"
            f"{', in `aside.jsonl`' if aside else ''}.\n"
        )
        first = "| functions_first | names of the tools by its first labels |\n"
    ordered = ", in call order" if bank.info.get("ordered", is_written) else ""
    tags = ["tool-retrieval", "function-calling", *["synthetic"] * is_written]
    return f"""---
{"language: en" + chr(10) if is_written else ""}task_categories: [text-retrieval]
tags: [{", ".join(tags)}]
---
# Tool-retrieval bank{": " + _plain(", ".join(domains)) if domains else ""}

Requests, and the tools that they need{ordered}. The {len(bank.tools):,} tools are in
`tools.jsonl`.{asks} Put together with toolbank.
{"Written by: " + _plain(", ".join(engines)) + "." if engines else ""}
{labels}
| split | queries |
|---|---|
{counts}

## Columns
| column | content |
|---|---|
| refined_instruction | the request{", polished" if is_polished else ""} |
| functions | names of the tools that it needs{ordered} |
{first}| explanation | {"how the tools chain" if is_written else "why these tools, where the data say it"} |
| id | unique in the bank |
| draft | {"the request before polishing" if is_polished else "empty"} |
| domain | {"which prompts and examples were used" if is_written else "the API"} |
| provenance | {_PROVENANCE if is_written else "empty"} |

## Loading
```python
from datasets import load_from_disk

bank = load_from_disk("this-folder")
```
"""


def _writer(query: object) -> str:
    provenance = getattr(query, "provenance", None)
    if provenance is None:
        return ""
    return " ".join(part for part in (provenance.engine, provenance.model) if part)


def _plain(text: str) -> str:
    """Foreign text on one line, so that it can't become Markdown structure."""
    return json.dumps(text, ensure_ascii=False)[1:-1].replace("<", "&lt;")


EXPORT = FolderKind("export", former="toolbank-export.json")

_TOOL_COLUMNS = ("functions", "functions_first")
_SPLITS: tuple[Split, ...] = ("train", "validation", "test")


def export_bank(bank: Bank, form: str, folder: Path) -> list[Path]:
    """Write a bank to a folder in one of `FORMATS`; returns what was written.

    - datasets: a DatasetDict on disk (`datasets.load_from_disk`), its card README.md, the
      tools as tools.jsonl, and the asks as asks.jsonl
    - jsonl: tools.jsonl, queries.jsonl and asks.jsonl, all fields; as with datasets, labels.jsonl
      and aside.jsonl where the labels were verified
    - toolbank: train.json, validation.json and test.json, each a list of objects with the
      published columns refined_instruction, functions and explanation; asks.json, the same of
      requests for one tool, which are of no split
    - functions: functions.json, the tools in the function-calling format, each under a name of
      its own; and function_names.json, the tool's name by that
    - anthropic, gemini, mcp: the same in their forms; cut.json says by tool what of its schemas
      the form can't hold

    Queries have their merged labels as tools. Where the labels were verified, datasets and jsonl
    have the first ones, too (`functions_first`, `tools_first`), and queries that were set aside
    are in aside.jsonl alone; toolbank leaves them out.

    An earlier export in this format is replaced; others stay beside it. All is built before.

    Raises:
        InputError: there is no such format, or the folder holds something else and no export, or
            a file that would be lost.
        ToolbankError: the folder can't be written to.
    """
    if form not in FORMATS:
        raise InputError(f"No export format {form!r}; there are: {', '.join(FORMATS)}.")
    return _write(folder, partial(FORMATS[form], bank))


def export_folder(bank: Path, form: str, folder: Path) -> list[Path]:
    """As `export_bank`, of a bank's folder; for jsonl, rows are read and written as they come.

    Raises:
        InputError: a file of the bank is missing, damaged, or not of this layout; or as of
            `export_bank`.
        ToolbankError: as of `export_bank`.
    """
    if form != "jsonl":
        return export_bank(Bank.load(bank), form, folder)
    return _write(folder, partial(_stream_jsonl, bank))


def _write(folder: Path, write: Callable[[Path], None]) -> list[Path]:
    with replacing(folder, EXPORT) as made:
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
        # Without a number of shards an empty split is written so that it can't be read.
        splits.save_to_disk(folder, num_shards=dict.fromkeys(_SPLITS, 1))
    finally:
        if was_enabled:
            progress.enable_progress_bar()
    write_text(folder / "README.md", dataset_card(bank))
    _write_lines(folder / "tools.jsonl", bank.tools)
    _write_lines(folder / "asks.jsonl", bank.asks)
    if bank.labels:
        _write_labels(folder, bank.labels, bank.queries, bank.verified)


def _export_jsonl(bank: Bank, folder: Path) -> None:
    _write_lines(folder / "tools.jsonl", bank.tools)
    _write_lines(folder / "queries.jsonl", _list_queries(bank.queries, bank.verified))
    _write_lines(folder / "asks.jsonl", bank.asks)
    if bank.labels:
        _write_labels(folder, bank.labels, bank.queries, bank.verified)


def _stream_jsonl(bank: Path, folder: Path) -> None:
    labels = read_labels(bank / "labels.parquet")
    verified = group_labels(labels)
    _write_lines(folder / "tools.jsonl", read_records(bank / "tools.parquet", Tool))
    queries = bank / "queries.parquet"
    rows = _list_queries(read_records(queries, Query), verified)
    _write_lines(folder / "queries.jsonl", rows)
    asks = bank / "asks.parquet"
    _write_lines(
        folder / "asks.jsonl", read_records(asks, Ask) if asks.exists() else ()
    )
    if labels:
        _write_labels(folder, labels, read_records(queries, Query), verified)


def _export_toolbank(bank: Bank, folder: Path) -> None:
    for split in _SPLITS:
        rows = [
            _published(query.query, query.tools, query.explanation)
            for query in select_split(bank, split)
        ]
        write_json(folder / f"{split}.json", rows)
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


def _list_queries(
    queries: Iterable[Query], verified: Mapping[str, Verified]
) -> Iterator[Query]:
    """The queries that are not set aside, with merged and first labels if any was verified."""
    for query in queries:
        if not is_aside(query, verified):
            yield apply_labels(query, verified.get(query.id)) if verified else query


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
        "draft": query.draft,
        "domain": query.domain,
        "provenance": provenance,
    }


_EXAMPLE = LabelledQuery(id="", query="", tools=())


def _write_labels(
    folder: Path,
    labels: Iterable[Label],
    queries: Iterable[Query],
    verified: Mapping[str, Verified],
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
