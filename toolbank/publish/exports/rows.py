"""Export all rows of a bank: as a DatasetDict, as JSON lines, and in ToolBank's columns."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
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
    read_missing,
    read_profiles,
)
from toolbank.bank.files import read_asks, read_records
from toolbank.bank.profile import AXES, QueryProfile
from toolbank.bank.records import Ask, Query, Tool
from toolbank.publish.exports.kind import (
    SPLITS,
    ExportKind,
    is_aside,
    select_split,
    write_lines,
)
from toolbank.system.files import write_json, write_text
from toolbank.system.text import fill_template


def dataset_card(bank: Bank) -> str:
    """Write the README.md of a bank as a dataset: content, columns, and how to load it."""
    return fill_template(
        "publish/exports/card.md.j2",
        domains=[_plain(d) for d in sorted({q.domain for q in bank.queries} - {""})],
        engines=[_plain(e) for e in sorted({_writer(q) for q in bank.queries} - {""})],
        splits={split: len(select_split(bank, split)) for split in SPLITS},
        n_tools=len(bank.tools),
        n_unused=sum(q.split is None for q in bank.queries)
        if "splits" in bank.info
        else 0,
        n_asks=len(bank.asks),
        n_aside=sum(is_aside(query, bank.verified) for query in bank.queries),
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


_TOOL_COLUMNS = ("functions", "functions_first")


def export_datasets(bank: Bank, folder: Path) -> None:
    """Write a DatasetDict for `datasets.load_from_disk`, its card README.md, and tools.jsonl.

    Asks, if any, are in asks.jsonl, and queries that no tool fits in missing.jsonl. If the labels
    were verified, there are also the first labels (`functions_first`), labels.jsonl, and excluded
    queries in aside.jsonl.
    """
    import datasets
    from datasets.utils import logging as progress

    text = datasets.Value("string")
    columns = list(_row(_EXAMPLE, bank))
    features = datasets.Features(
        dict.fromkeys(columns, text)
        | {name: datasets.List(text) for name in columns if name in _TOOL_COLUMNS}
    )
    splits = datasets.DatasetDict()
    for split in SPLITS:
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
        splits.save_to_disk(folder, num_shards=dict.fromkeys(SPLITS, 1))
    finally:
        if was_enabled:
            progress.enable_progress_bar()
    write_text(folder / "README.md", dataset_card(bank))
    write_lines(folder / "tools.jsonl", bank.tools)
    if bank.asks:
        write_lines(folder / "asks.jsonl", bank.asks)
    if bank.missing:
        write_lines(folder / "missing.jsonl", bank.missing)
    if bank.labels:
        _write_labels(folder, bank.labels, bank.queries, bank.verified)


def export_jsonl(bank: Bank, folder: Path) -> None:
    """Write tools.jsonl, queries.jsonl and, if there are asks, asks.jsonl, with all fields.

    Queries that no tool fits are among the queries, with an empty list of tools. Verified labels are
    written as by `export_datasets`; the first ones are `tools_first`.
    """
    _write_jsonl(
        folder,
        bank.tools,
        lambda: bank.queries,
        bank.asks,
        bank.labels,
        bank.profiles,
        bank.missing,
    )


def _stream_jsonl(bank: Path, folder: Path) -> None:
    missing, fitted = read_missing(bank)
    _write_jsonl(
        folder,
        read_records(bank / "tools.parquet", Tool),
        lambda: chain(read_records(bank / "queries.parquet", Query), fitted),
        read_asks(bank / "asks.parquet"),
        read_labels(bank / "labels.parquet"),
        read_profiles(bank),
        missing,
    )


def _write_jsonl(
    folder: Path,
    tools: Iterable[Tool],
    read_queries: Callable[[], Iterable[Query]],
    asks: Sequence[Ask],
    labels: Sequence[Label],
    profiles: Mapping[str, QueryProfile],
    missing: Iterable[Query],
) -> None:
    verified = group_labels(labels)
    rows = (
        apply_labels(query, verified.get(query.id), profiles)
        if labels or profiles
        else query
        for query in read_queries()
        if not is_aside(query, verified)
    )
    write_lines(folder / "tools.jsonl", tools)
    write_lines(folder / "queries.jsonl", chain(rows, missing))
    if asks:
        write_lines(folder / "asks.jsonl", asks)
    if labels:
        _write_labels(folder, labels, read_queries(), verified)


def export_toolbank(bank: Bank, folder: Path) -> None:
    """Write train.json, validation.json and test.json with the columns of ToolBank's dataset.

    asks.json has the same of requests for one tool, which are of no split.
    """
    for split in SPLITS:
        rows = [
            _published(query.query, query.tools, query.explanation)
            for query in select_split(bank, split)
        ]
        write_json(folder / f"{split}.json", rows)
    if bank.asks:
        asks = [_published(ask.ask, (ask.tool,)) for ask in bank.asks]
        write_json(folder / "asks.json", asks)


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
    write_lines(folder / "labels.jsonl", labels)
    aside = [query for query in queries if is_aside(query, verified)]
    if aside:
        write_lines(folder / "aside.jsonl", aside)


_OPTIONAL = ("asks.jsonl", "labels.jsonl", "aside.jsonl")
DATASETS = ExportKind(export_datasets, (*_OPTIONAL, "missing.jsonl"))
JSONL = ExportKind(export_jsonl, _OPTIONAL, stream=_stream_jsonl)
TOOLBANK = ExportKind(export_toolbank, ("asks.json",))
