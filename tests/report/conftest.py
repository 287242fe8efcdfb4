import json

import pytest

from toolbank.bank.bank import Bank
from toolbank.bank.files import write_attempts
from toolbank.bank.records import AttemptRecord, Query, Tool
from toolbank.system.files import write_json, write_text

COUNTS = {
    "attempts": 12,
    "accepted": 6,
    "declined": 1,
    "rejected": {"identifier": 2, "near-duplicate": 1},
    "failed": {"http-500": 2},
    "leak_word": 1,
}


def make_bank(n_queries=6):
    tools = tuple(
        Tool(
            name=f"lib.part.tool{i}",
            kind="function",
            summary=f"Does thing {i}.",
            url=f"https://example.org/{i}",
        )
        for i in range(5)
    )
    queries = tuple(
        Query(
            id=f"q{i}",
            query=f"What came of thing {i} when it was all counted?",
            draft=f"Do thing {i}. Then count it.",
            tools=("lib.part.tool0", f"lib.part.tool{1 + i % 3}"),
            explanation=f"Thing {i} is counted.",
            split="test" if i < 2 else "train",
        )
        for i in range(n_queries)
    )
    info = {
        "versions": {"toolbank": "0.1.0"},
        "seed": 3,
        "domain": "things",
        "generate": {
            "engine": "openai",
            "model": "some-model",
            "examples": {"identifier": ["tool_7 stands in the text"]},
            "missing_tools": {"lib.absent": 4},
        },
        "counts": COUNTS,
    }
    return Bank(tools, queries, info)


def record(retriever, name, value, n=2, metric="recall", k=5):
    low, high = (None, None) if value is None else (value - 0.1, value + 0.1)
    about = {"retriever": retriever, "set": name, "metric": metric, "k": k, "n": n}
    return {**about, "value": value, "low": low, "high": high}


def compared(retriever, against, baseline, value, name="test"):
    row = record(retriever, name, value)
    del row["value"]
    return {**row, "against": against, "baseline": baseline, "difference": value}


METRICS = [
    record("bm25", "test", 0.25),
    record("tool2vec", "test", 0.625),
    record("bm25", "test-seen-sets", None, n=0),
    record("tool2vec", "test-seen-sets", None, n=0),
    record("bm25", "real", 0.5, n=40),
    record("tool2vec", "real", 0.375, n=40),
    record("bm25", "real", 0.3, n=40, metric="mrr", k=None),
]


def needs(name, query, part, tool):
    tools = [f"lib.part.tool{tool}"]
    return {"id": name, "query": query, "set": part, "tools": tools}


HITS = [
    *(needs(f"q{i}", f"Thing {i}?", "test", 0) for i in range(2)),
    *(needs(f"ask-terse-{i}", "a thing", "real", i % 4) for i in range(40)),
]


def write_hits(run, rows):
    """Hits of two methods: one finds the first tool alone, one nothing."""
    for name, hits in (("tool2vec", ["lib.part.tool0"]), ("bm25", [])):
        lines = [json.dumps({**row, "hits": hits}) + "\n" for row in rows]
        write_text(run / "hits" / f"{name}.jsonl", "".join(lines))


def make_attempts():
    """As many as COUNTS says."""
    rows = [("accepted", "")] * COUNTS["accepted"] + [("declined", "")]
    for outcome in ("rejected", "failed"):
        for reason, n in COUNTS[outcome].items():
            rows += [(outcome, reason)] * n
    return [
        AttemptRecord(attempt=number, outcome=outcome, reason=reason)
        for number, (outcome, reason) in enumerate(rows)
    ]


def calls(replies, tokens=(0, 0), dollars=None, failed=None, latency=None):
    return {
        "replies": replies,
        "prompt_tokens": tokens[0],
        "completion_tokens": tokens[1],
        "dollars": dollars,
        "failed_tries": failed or {},
        "latency_s": latency or {},
    }


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "myrun"
    make_bank().save(folder / "bank")
    write_attempts(folder / "bank" / "attempts.parquet", make_attempts())
    write_json(folder / "metrics.json", METRICS)
    unknown = {"set": "real", "n": 40, "unknown": {"lib.gone": 2}, "refusals": 0}
    write_json(folder / "labels.json", [unknown])
    write_hits(folder, HITS)
    write_text(folder / "recipe.yaml", "name: things\nseed: 3\n")
    return folder
