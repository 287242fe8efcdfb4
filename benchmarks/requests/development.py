"""A development set: what every choice of a method is made on, and never natural requests.

    python benchmarks/requests/development.py numpy TOOLS.parquet TEXTS OUT

reads TEXTS/written/API*.jsonl (requests) and TEXTS/asks/API.jsonl (four asks a line), and writes a
bank to OUT. Its split "test" is the development set: 128 of the requests, by the hash of their
ids, and for a tenth of the lines of asks, by the hash of the tool, one ask each, of the four kinds
in turn. All others are its split "train" and its asks. The same files give the same bank.

A line whose asks stand for several tools gives none: which of them is meant can't be told.
"""

import argparse
import hashlib
import json
from pathlib import Path

from toolbank.bank.bank import Bank
from toolbank.bank.files import read_tools
from toolbank.bank.records import Ask, Query, Tool

KINDS = ("plain", "voiced", "terse", "larger")
REQUESTS = 128
ASKS_PREFIX = "ask-"


def make_development(api: str, tools: tuple[Tool, ...], texts: Path) -> Bank:
    """The bank of an API's tools; queries of split "test" are the development set.

    The ids of those that are asks begin with `ASKS_PREFIX`, then have the kind.
    """
    bank = Bank(tools)
    requests = [
        Query(id=row["id"], query=row["query"], tools=tuple(row["tools"]))
        for path in sorted((texts / "written").glob(f"{api}*.jsonl"))
        for row in read_rows(path)
        if row["query"] and all(name in bank.index for name in row["tools"])
    ]
    lines = [
        {
            **row,
            "tools": [
                t for t in (row["tool"], *row.get("siblings", ())) if t in bank.index
            ],
        }
        for row in read_rows(texts / "asks" / f"{api}.jsonl")
    ]
    held = set(pick([query.id for query in requests], REQUESTS))
    alone = [line["tool"] for line in lines if len(line["tools"]) == 1]
    kind_of = {
        name: KINDS[number % len(KINDS)]
        for number, name in enumerate(pick(alone, len(lines) // 10))
    }
    queries, asks = [], []
    for query in requests:
        split = "test" if query.id in held else "train"
        queries.append(query.model_copy(update={"split": split}))
    for line in lines:
        for kind, ask in zip(KINDS, line["asks"], strict=True):
            if kind_of.get(line["tool"]) == kind:
                queries.append(
                    Query(
                        id=f"{ASKS_PREFIX}{kind}-{line['tool']}",
                        query=ask,
                        tools=(line["tool"],),
                        split="test",
                    )
                )
            else:
                asks += [Ask(tool=tool, kind=kind, ask=ask) for tool in line["tools"]]
    return Bank(tools, tuple(queries), {"name": api, "ordered": True}, tuple(asks))


def pick(names: list[str], count: int) -> list[str]:
    """The first so many of the names by their SHA-256."""
    return sorted(names, key=lambda name: hashlib.sha256(name.encode()).digest())[
        :count
    ]


def read_rows(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("api", choices=["numpy", "pandas", "aws"])
    parser.add_argument(
        "tools", type=Path, help="the tools.parquet of a run or a crawl"
    )
    parser.add_argument("texts", type=Path, help="the folder of written/ and asks/")
    parser.add_argument("out", type=Path, help="the bank's folder")
    given = parser.parse_args()
    bank = make_development(given.api, read_tools(given.tools), given.texts)
    bank.save(given.out)
    test = bank.split("test")
    asked = sum(query.id.startswith(ASKS_PREFIX) for query in test)
    print(
        f"{given.out}: {len(bank.tools)} tools; to learn from {len(bank.split('train'))} requests "
        f"and {len(bank.asks)} asks; development {len(test) - asked} requests and {asked} asks"
    )


if __name__ == "__main__":
    main()
