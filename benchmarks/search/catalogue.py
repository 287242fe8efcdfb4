"""A run of every method over a catalogue of any size, to time searches on: what they find is no matter.

    python benchmarks/search/catalogue.py SERVERS.json ASKS.jsonl N FOLDER
    toolbank run FOLDER/recipe.yaml --out FOLDER/run
    toolbank pack FOLDER/run --out FOLDER/finder --both --retriever tool2vec ...

The tools are those of the servers, and beyond their number the same with words of others mixed in,
by seed: synthetic, therefore. Trainings are as short as they can be.
"""

import json
import sys
from itertools import islice
from pathlib import Path
from random import Random

RECIPE = """
name: catalogue
seed: 0
dataset: {type: jsonl, path: data, ordered: true}
split: {validation: 0.1, test: 0.1}
retrievers:
  - type: bm25
  - type: descriptions
  - type: nearest
  - type: tool2vec
  - type: nnn
    first_stage: descriptions
  - type: mlc
    training: {epochs: 0.02, max_length: 32}
  - type: refiner
    first_stage: tool2vec
    candidates: 32
    training: {epochs: 0.02, max_length: 32}
  - type: protip
    training: {epochs: 0.02, max_length: 32}
evaluate: {ks: [5]}
"""


def read_tools(path):
    """(name, description, parameters) of each tool that has a description."""
    for server in json.loads(Path(path).read_text()):
        for tool in server.get("tools", ()):
            if tool.get("description"):
                yield {
                    "name": f"{server['name']}/{tool['name']}",
                    "description": tool["description"],
                }


def make_tools(tools, n):
    """As many tools, the real ones first."""
    draw = Random(0)
    yield from islice(tools, n)
    for number in range(n - len(tools)):
        one, other = draw.sample(tools, 2)
        words = one["description"].split()
        mixed = draw.sample(
            other["description"].split(), min(5, len(other["description"].split()))
        )
        for word in mixed:
            words.insert(draw.randint(0, len(words)), word)
        yield {**one, "name": f"{one['name']}_{number}", "description": " ".join(words)}


def main(servers, asks, n, folder):
    real = {tool["name"]: tool for tool in read_tools(servers)}
    tools = {tool["name"]: tool for tool in make_tools(list(real.values()), int(n))}
    data = Path(folder, "data")
    data.mkdir(parents=True)
    with (data / "tools.jsonl").open("w") as file:
        file.writelines(json.dumps(tool) + "\n" for tool in tools.values())
    with (data / "queries.jsonl").open("w") as file:
        for line in Path(asks).read_text().splitlines():
            row = json.loads(line)
            if row["tool"] in tools:
                for ask in row["asks"]:
                    query = {"query": ask, "tools": [row["tool"]]}
                    file.write(json.dumps(query) + "\n")
    Path(folder, "recipe.yaml").write_text(RECIPE)


if __name__ == "__main__":
    main(*sys.argv[1:])
