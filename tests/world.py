"""A small world that many tests share: an API, a recipe, and a model that answers well."""

import json
from functools import cache
from random import Random

import yaml

from tests.servers.chat import Answer
from toolbank.bank.bank import Bank
from toolbank.bank.function_writer import write_function
from toolbank.bank.records import Query, Tool
from toolbank.sources.python.package import read_package
from toolbank.sources.python.settings import PythonSource

WORDS = [
    f"{start}{end}"
    for start in ("sun", "rain", "moon", "snow", "star")
    for end in ("light", "fall", "ring", "fish", "dust")
]
SHOP = [
    Tool(
        name=f"shop.{verb}_{noun}",
        kind="function",
        summary=f"{verb.title()} the {noun} of a customer.",
    )
    for verb in ("find", "total", "list", "merge")
    for noun in ("orders", "letters", "returns", "prices")
]
PACKAGE = "{type: python, package: statistics}"
RECIPE = """\
name: mine
sources:
  - SOURCE
baselines: false
retrievers:
  - type: bm25
"""


def write_recipe(folder, source="", **generate):
    """Write the recipe `mine.yaml`, and give its path.

    Its tools are those of the package `statistics`, from a list unless another source is given:
    a package is read by a process of its own, which takes half a second.
    """
    settings = {"offered": 6, "max_tools": 3, **generate}
    if not source:
        (folder / "tools.json").write_text(_list_statistics())
        source = "{type: functions, path: tools.json}"
    recipe = RECIPE.replace("SOURCE", source)
    path = folder / "mine.yaml"
    path.write_text(f"{recipe}generate: {json.dumps(settings)}\n")
    return str(path)


def write_lines(path, rows):
    """Write each row as a line of JSON; give the path."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def write_dataset(folder, tools, queries, **more):
    """Write a dataset of type `jsonl`; a tool may be given as its name alone."""
    folder.mkdir(parents=True, exist_ok=True)
    tools = [
        {"name": tool, "description": f"Does {tool}."}
        if isinstance(tool, str)
        else tool
        for tool in tools
    ]
    for name, rows in {"tools": tools, "queries": queries, **more}.items():
        write_lines(folder / f"{name}.jsonl", rows)


def write_dataset_recipe(folder, name, **keys):
    """Write NAME.yaml: BM25 over the dataset in data/, with other keys; give its path."""
    recipe = {
        "name": name,
        "dataset": {"type": "jsonl", "path": "data"},
        "baselines": False,
        "retrievers": [{"type": "bm25"}],
    }
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump({**recipe, **keys}))
    return str(path)


@cache
def _list_statistics():
    tools = read_package(PythonSource(package="statistics")).tools
    return json.dumps([write_function(tool, "mcp", tool.name)[0] for tool in tools])


def files_under(folder):
    """The content of each file of a folder, by its relative path."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def make_bank(summaries, uses=(), info=None, **more):
    """A bank of functions by their summaries, and of queries: text, tools, split."""
    tools = tuple(
        Tool(name=name, kind="function", summary=summary)
        for name, summary in summaries.items()
    )
    queries = tuple(
        Query(id=str(i), query=text, tools=tuple(names), split=split)
        for i, (text, names, split) in enumerate(uses)
    )
    return Bank(tools, queries, info or {}, **more)


def drafted(tools, text):
    """What a writer says that has found a request for these tools."""
    return {
        "declined": False,
        "reason": "",
        "tools": list(tools),
        "explanation": "One feeds the other.",
        "draft": text,
    }


def polished(text):
    return {"already_good": False, "reason": "", "query": text}


def sentence(seed):
    """A request that passes every check; another one for each seed."""
    one, two, three, four = Random(seed).sample(WORDS, 4)
    return f"Weigh the {one} against the {two}, then sort each {three} by its {four}."


def asks_for(tool, keys=("plain", "voiced", "terse", "larger")):
    """Asks that pass every check; others for each tool."""
    random = Random(tool)
    asks = {}
    for key in keys:
        one, two, three = random.sample(WORDS, 3)
        number = random.randrange(10**6)
        asks[key] = f"Would you {one} the {two} of my {number} {three}?"
        if key.startswith("terse"):
            asks[key] = f"{one} {number} {two}"
    return asks


def good_reply(call):
    """What a good model says to a request; a function of its prompt alone."""
    if call.asked_for:
        return asks_for(call.asked_for, call.keys)
    if call.asks_polish:
        draft = call.prompt.split("# Draft")[1].split("# What serves")[0].strip()
        return polished(f"Could you, today: {draft}")
    return drafted(call.offered[:2], sentence(call.prompt))


# What a good model says to calls other than those of a writer, by the keys of the reply.
_REPLIES = [
    {"reason": "It is shorter.", "winner": "A"},
    {"needed": [], "alternatives": [], "aside": "Unclear."},
    {"tools": [2, 1]},
    {"subtasks": ["the mean of numbers"]},
]


def good(call):
    """The script of a server whose model is good."""
    others = (reply for reply in _REPLIES if reply.keys() == set(call.keys))
    return Answer.json(next(others, None) or good_reply(call))


def adds_up(counts):
    """Whether each attempt is counted under one outcome."""
    return counts["attempts"] == (
        counts["accepted"]
        + counts["declined"]
        + sum(counts["rejected"].values())
        + sum(counts["failed"].values())
    )
