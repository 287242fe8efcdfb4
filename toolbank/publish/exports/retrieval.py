"""Export a bank as a retrieval benchmark: BEIR's and MTEB's layouts, and ToolRet's."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

from toolbank.bank.bank import Bank
from toolbank.publish.exports.kind import SPLITS, ExportKind, select_split, write_lines
from toolbank.publish.qrels import BEIR_SPLITS, Corpus, QrelCounts, write_beir
from toolbank.requests.write.checks import is_english
from toolbank.requests.write.language import (
    ENGLISH,
    LANGUAGE_TAGS,
    find_other_language,
)
from toolbank.system.files import write_text
from toolbank.system.text import fill_template

# So many requests show the language.
_READ = 100
_INSTRUCTION = "Given a request, retrieve the tools that it needs."


def export_beir(bank: Bank, folder: Path) -> None:
    """Write corpus.jsonl, queries.jsonl and qrels/{train,dev,test}.tsv, and the same as .trec."""
    read = partial(select_split, bank)
    write_beir(folder, bank.tools, read, lambda _: bank.verified, bank.missing)


def export_mteb(bank: Bank, folder: Path) -> None:
    """Write the dataset of a retrieval task of MTEB, and task.py, which defines the task.

    The dataset has the configs corpus, queries and default (the qrels), each of JSON lines.
    """
    corpus, queries, qrels = Corpus(), [], dict[str, str]()
    write_lines(folder / "corpus.jsonl", corpus.rows(bank.tools))
    for split, name in BEIR_SPLITS.items():
        chosen = select_split(bank, split)
        graded = list(corpus.grade(chosen, bank.verified, QrelCounts()))
        queries += [{"_id": query.id, "text": query.text} for query in graded]
        if graded:
            qrels[name] = f"qrels/{name}.jsonl"
            write_lines(
                folder / qrels[name],
                (
                    {"query-id": query.id, "corpus-id": tool, "score": grade}
                    for query in graded
                    for tool, grade in query.grades.items()
                ),
            )
    write_lines(folder / "queries.jsonl", queries)
    name = str(bank.info.get("name") or "tools")
    words = re.findall(r"[A-Za-z0-9]+", name)
    title = f"ToolBank{''.join(word[0].upper() + word[1:] for word in words)}"
    files = {
        "default": qrels,
        "corpus": {"corpus": "corpus.jsonl"},
        "queries": {"queries": "queries.jsonl"},
    }
    configs = [
        {
            "config_name": config,
            "data_files": [{"split": s, "path": p} for s, p in parts.items()],
        }
        for config, parts in files.items()
    ]
    card = fill_template("publish/exports/mteb.md.j2", configs=configs, title=title)
    write_text(folder / "README.md", card)
    task = fill_template(
        "publish/exports/mteb_task.py.j2",
        title=title,
        description=repr(f"Tools of {name} that a request needs."),
        language=LANGUAGE_TAGS[_find_language(bank)],
        splits=[split for split in ("test", "dev") if split in qrels][:1],
    )
    write_text(folder / "task.py", task)


def _find_language(bank: Bank) -> str:
    """Find the ISO 639-1 code of a bank's language: what it says, or else what its texts are in.

    Raises:
        MissingLibraryError: the texts are not English, and lingua is not installed.
    """
    if (stated := bank.info.get("language")) in LANGUAGE_TAGS:
        return str(stated)
    if "generate" in bank.info:
        return ENGLISH
    text = " ".join(query.query for query in bank.queries[:_READ])
    other = "" if is_english(text) else find_other_language(text, ENGLISH)
    return other or ENGLISH


def export_toolret(bank: Bank, folder: Path) -> None:
    """Write tools.jsonl and a file of queries for each split, in the columns of ToolRet.

    ToolRet is arXiv 2503.01763. `labels` and `documentation` are JSON texts, as there. All labels
    have the relevance 1: alternatives have none.
    """
    documents = {
        tool.name: tool.as_function(tool.name)["function"] for tool in bank.tools
    }
    write_lines(
        folder / "tools.jsonl",
        ({"id": name, "documentation": _json(one)} for name, one in documents.items()),
    )
    for split in SPLITS:
        rows = []
        for query in select_split(bank, split):
            places = (bank.index[name] for name in query.tools if name in bank.index)
            names = [bank.tools[place].name for place in dict.fromkeys(places)]
            labels = [
                {"id": name, "doc": documents[name], "relevance": 1} for name in names
            ]
            if labels:
                text = {"query": query.query, "instruction": _INSTRUCTION}
                row = {"id": query.id, **text, "labels": _json(labels)}
                rows.append({**row, "category": query.domain or "customized"})
        if rows:
            write_lines(folder / f"queries-{split}.jsonl", rows)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


BEIR = ExportKind(export_beir, ("qrels",), known_only=True)
MTEB = ExportKind(export_mteb, ("qrels",), known_only=True)
TOOLRET = ExportKind(
    export_toolret,
    tuple(f"queries-{split}.jsonl" for split in SPLITS),
    known_only=True,
)
