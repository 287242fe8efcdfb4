"""The card of an exported dataset."""

import json
from collections.abc import Mapping

from toolbank.bank.bank import Bank, LabelledQuery, Verified, apply_labels
from toolbank.bank.records import Query, Split

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
