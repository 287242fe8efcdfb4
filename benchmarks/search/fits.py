"""How often an answer is marked `fits: false`, by what a finder is calibrated on.

    python benchmarks/search/fits.py SERVERS.json ASKS.jsonl REQUESTS OUT

SERVERS.json lists MCP servers with their tools, ASKS.jsonl requests for some of the tools, four each.
They are the train requests; a tool without any has two made from its description. Each validation
and test request is a train request with a few words more. REQUESTS is a folder such as
benchmarks/requests/mcp: test.jsonl and eval.jsonl hold requests with the tools that serve them, any
one of which is right, and impossible.jsonl holds requests that no tool serves. Two finders are packed
to OUT of one run: `copies`, which has the validation requests alone, and `people`, which has
eval.jsonl in evaluate.on, too.

A run that is there is not fitted again, so that another version of toolbank, by whose Python the
script is started, packs and searches the same retrievers: 0.7.0 gives no hits where nothing fits, in
place of the mark.
"""

import json
import subprocess
import sys
from pathlib import Path
from random import Random

import yaml

import toolbank
from toolbank.system.version import __version__

RETRIEVERS = ("fusion", "tool2vec", "bm25-requests")
RECIPE = """
name: fits
seed: 0
dataset: {{type: jsonl, path: {data}}}
baselines: false
retrievers:
  - {{type: tool2vec}}
  - {{type: bm25, name: bm25-requests, requests: true}}
  - {{type: fusion, first_stage: tool2vec, beside: [bm25-requests]}}
"""
COPIES = ("Please, {}", "Could you do this: {}", "{} Thanks!", "Today: {}")
MADE = ("I want to {}", "Can you help me {}")


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def make_data(servers, asks, folder):
    """Write the tools, the train requests, and near-copies of these as validation and test."""
    tools = {}
    for server in servers:
        for tool in server["tools"]:
            name = f"{server['name']}/{tool['name']}"
            properties = {
                key: {"type": "string", "description": str(value)}
                for key, value in (tool.get("parameter") or {}).items()
            }
            described = tool["description"].strip() or tool["name"]
            tools.setdefault(
                name,
                {
                    "name": name,
                    "description": described,
                    "tags": [server["name"]],
                    "parameters": {"type": "object", "properties": properties},
                },
            )
    by_tool = {row["tool"]: row["asks"] for row in asks if row["tool"] in tools}
    for name, tool in tools.items():
        first = tool["description"].split(". ")[0].split("\n")[0].rstrip(".")
        lower = first[:1].lower() + first[1:]
        by_tool.setdefault(name, [pattern.format(lower) for pattern in MADE])
    train = [(text, name) for name, texts in by_tool.items() for text in texts]
    draw = Random(0)
    copied = draw.sample(train, 600)
    rows = [
        {"query": text, "tools": [name], "split": "train"} for text, name in train
    ] + [
        {
            "query": COPIES[number % len(COPIES)].format(text),
            "tools": [name],
            "split": "validation" if number < 400 else "test",
        }
        for number, (text, name) in enumerate(copied)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / "tools.jsonl", tools.values())
    write(folder / "queries.jsonl", rows)


def label(rows):
    return [
        {**row, "tools": [f"{server}/{name}" for server, name in row["tools"]]}
        for row in rows
    ]


def make_finder(out, name, on):
    """Pack the run, with this file in evaluate.on; fit it if it is not there."""
    recipe, run, finder = out / "fits.yaml", out / "run", out / name
    if not run.exists():
        recipe.write_text(RECIPE.format(data=out / "data"))
        call("run", recipe, "--out", run, "--until", "retrievers")
    settings = yaml.safe_load((run / "recipe.yaml").read_text())
    settings.setdefault("evaluate", {})["on"] = on
    (run / "recipe.yaml").write_text(yaml.safe_dump(settings, sort_keys=False))
    labels = [part for label in RETRIEVERS for part in ("--retriever", label)]
    call("pack", run, "--out", finder, *labels)
    return toolbank.load(finder)


def call(*command):
    print("toolbank", *map(str, command), flush=True)
    subprocess.run([sys.executable, "-m", "toolbank", *map(str, command)], check=True)


def is_marked(answer):
    return answer.none if hasattr(answer, "none") else answer.fits is False


def measure(finder, retriever, test, impossible):
    """Right first, right in five, marked of the test requests, marked of the impossible ones."""
    answers = [finder.answer(row["query"], retriever=retriever) for row in test]
    found = [
        [hit.tool.name in row["tools"] for hit in answer.hits]
        for row, answer in zip(test, answers, strict=True)
    ]
    others = [finder.answer(row["query"], retriever=retriever) for row in impossible]
    served = [any(row) for row in found]
    pairs = list(zip(served, answers, strict=True))
    return (
        sum(any(row[:1]) for row in found),
        sum(served),
        sum(map(is_marked, answers)),
        sum(is_marked(answer) for right, answer in pairs if right),
        sum(map(is_marked, others)),
    )


def main():
    servers, asks, requests, out = map(Path, sys.argv[1:])
    out = out.resolve()
    if not (out / "data").exists():
        make_data(json.loads(servers.read_text()), read(asks), out / "data")
    write(out / "people.jsonl", label(read(requests / "eval.jsonl")))
    test = label(read(requests / "test.jsonl"))
    impossible = read(requests / "impossible.jsonl")
    for name, on in (("copies", []), ("people", [str(out / "people.jsonl")])):
        finder = make_finder(out, name, on)
        for retriever in RETRIEVERS:
            first, five, marked, lost, others = measure(
                finder, retriever, test, impossible
            )
            calibration = finder.calibrations.get(retriever)
            least = f"{float(calibration.threshold):.3f}" if calibration else "none"
            print(
                f"{__version__} {name:7} {retriever:14} threshold {least}: first {first}, "
                f"in five {five} of {len(test)}; fits: false for {marked} ({lost} with a right tool "
                f"in five), and for {others} of {len(impossible)} impossible",
                flush=True,
            )


if __name__ == "__main__":
    main()
