"""The card of an exported dataset."""

import json

from toolbank.bank.bank import Bank


def dataset_card(bank: Bank) -> str:
    """README.md of a bank as a dataset: what it holds, its columns, how to load it."""
    other = None if "withheld" in bank.info else "train"
    splits = {
        split: sum((query.split or other) == split for query in bank.queries)
        for split in ("train", "validation", "test")
    }
    counts = "\n".join(f"| {split} | {n:,} |" for split, n in splits.items())
    domains = sorted({query.domain for query in bank.queries if query.domain})
    engines = sorted({_writer(q) for q in bank.queries} - {""})
    return f"""---
language: en
task_categories: [text-retrieval]
tags: [tool-retrieval, function-calling, synthetic]
---
# Tool-retrieval bank{": " + _plain(", ".join(domains)) if domains else ""}

Requests in a person's words, and the tools of an API reference that serve them, in call
order. The {len(bank.tools):,} tools are in `tools.jsonl`. Made with toolbank.
{"Written by: " + _plain(", ".join(engines)) + "." if engines else ""}

| split | queries |
|---|---|
{counts}

## Columns
| column | content |
|---|---|
| refined_instruction | the polished request |
| functions | names of the tools that it needs, in call order |
| explanation | how the tools chain |
| id | unique in the bank |
| draft | the request before polishing |
| domain | which prompts and examples were used |
| provenance | where it came from: attempt, engine, model, prompt hash, seed (JSON) |

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
