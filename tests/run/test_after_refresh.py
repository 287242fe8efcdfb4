"""Every command over a run whose sources have added, removed and renamed tools."""

import json
from functools import partial

import polars as pl
import pytest
import yaml

from tests.commands.in_process import do, sets
from tests.run.test_verify import grader
from tests.servers.chat import ChatServer
from tests.world import write_lines, write_recipe
from toolbank.bank.bank import Bank
from toolbank.search.run_search import load

NOUNS = ("orders", "letters", "returns", "prices")
BEFORE = [f"{verb}_{noun}" for verb in ("find", "total", "list") for noun in NOUNS]
GONE, RENAMED = ("find_orders", "list_prices"), "total_letters"
AFTER = [
    *(name for name in BEFORE if name not in (*GONE, RENAMED)),
    "sum_letters",
    "weigh_parcels",
]


def describe(name):
    return f"{name.replace('_', ' the ').title()} of a customer."


class Functions:
    source = "{type: functions, path: tools.json}"

    def __init__(self, folder):
        self.file = folder / "tools.json"

    def write(self, names):
        listed = [{"name": name, "description": describe(name)} for name in names]
        self.file.write_text(json.dumps(listed))


class OpenApi(Functions):
    source = "{type: openapi, spec: tools.json, prefix: shop}"

    def write(self, names):
        paths = {
            f"/{name}": {"get": {"operationId": name, "summary": describe(name)}}
            for name in names
        }
        info = {"title": "Shop", "version": str(len(names))}
        content = {"openapi": "3.0.3", "info": info, "paths": paths}
        self.file.write_text(json.dumps(content))


def write_whole_recipe(folder, source, url):
    by_model = {"engine": "openai", "base_url": url, "model": "m"}
    recipe = {
        "name": "mine",
        "sources": [yaml.safe_load(source)],
        "generate": {**by_model, "queries": 80, "offered": 4, "max_tools": 3},
        "asks": {"per_tool": 2},
        "judge": {"pairs": 4},
        "verify": {**by_model, "candidates": 3},
        "split": {"test": 0.2, "validation": 0.4},
        "baselines": False,
        "retrievers": [
            {"type": "bm25", "requests": True},
            {"type": "bm25", "name": "described"},
        ],
    }
    (folder / "mine.yaml").write_text(yaml.safe_dump(recipe))


TOOL_FORMS = ("functions", "anthropic", "gemini", "mcp")
BANK_FORMS = ("datasets", "jsonl", "toolbank")
COMMANDS = (
    "plan mine.yaml",
    "preview mine.yaml",
    "preview runs/mine",
    "tools runs/mine",
    "show runs/mine",
    "show runs/mine QUERY",
    "search runs/mine orders",
    "search runs/mine orders --retriever described",
    "compare runs/mine runs/mine --no-encoder",
    *(f"export runs/mine --format {form} --out OUT/{form}" for form in TOOL_FORMS),
    "pack runs/mine --out OUT/finder",
    "search OUT/finder orders --min-score 0",
    "pack runs/mine --out OUT/words --with-requests --retriever bm25",
    "refresh runs/mine",
)
"""What works before and after the run that follows the refresh."""
OF_THE_BANK = (
    "evaluate runs/mine --on own.jsonl",
    "evaluate runs/mine",
    "report mine.yaml",
    "judge mine.yaml",
    "publish runs/mine --to OUT/published",
    *(f"export runs/mine --format {form} --out OUT/{form}" for form in BANK_FORMS),
)
"""What needs requests and retrievers that fit the tools."""


@pytest.fixture(scope="module")
def server():
    with ChatServer(grader) as server:
        yield server


@pytest.mark.parametrize(
    "kind", [Functions, pytest.param(OpenApi, marks=pytest.mark.slow)]
)
@pytest.mark.slow
def test_every_command_works_after_a_refresh(tmp_path, kind, server):
    source = kind(tmp_path)
    source.write(BEFORE)
    write_whole_recipe(tmp_path, source.source, server.url)
    run = tmp_path / "runs/mine"

    def call(command, out="out", code=0):
        words = command.replace("OUT", out).replace("QUERY", lost[0].id).split()
        return do(tmp_path, *words, code=code)

    do(tmp_path, "run", "mine.yaml")
    names = {tool.name.rpartition("/")[2]: tool.name for tool in load(run).tools}
    gone = {names[name] for name in (*GONE, RENAMED)}
    lost = [q for q in Bank.load(run / "bank").queries if not gone.isdisjoint(q.tools)]
    own = [[names[GONE[0]], names["list_orders"]], [names[RENAMED]]]
    rows = [{"query": "Find it.", "tools": tools} for tools in own]
    write_lines(tmp_path / "own.jsonl", rows)
    source.write(AFTER)
    said = call("refresh runs/mine").stdout
    assert "2 added, 3 removed, 0 changed, 9 the same" in said
    assert "toolbank pack runs/mine --out FINDER" in said
    for command in COMMANDS:
        call(command, "before")
    for command in OF_THE_BANK:
        error = call(command, code=2).stderr
        assert "toolbank run " in error
        assert len(error.strip().splitlines()) <= 4
    call(f"show runs/mine {min(gone)}", code=2)
    for command in ("verify mine.yaml", "run mine.yaml", *COMMANDS, *OF_THE_BANK):
        call(command, "after")
    for split in ("train", "validation", "test"):
        listed = json.loads((tmp_path / f"after/toolbank/{split}.json").read_text())
        assert listed
        assert gone.isdisjoint(name for row in listed for name in row["functions"])


@pytest.mark.parametrize("kind", [Functions, OpenApi])
@pytest.mark.slow
def test_exports_have_grades_after_a_refresh(tmp_path, kind):
    source = kind(tmp_path)
    source.write(BEFORE)
    write_recipe(tmp_path, source.source, engine="rules", queries=30)
    call = partial(do, tmp_path)
    call("run", "mine.yaml")
    queries = [q for q in Bank.load(tmp_path / "runs/mine/bank").queries if q.split]
    aside = {query.id for query in queries[::2]}
    grades = [
        {"query": query.id, "aside": "Unclear."}
        if query.id in aside
        else {"query": query.id, "needed": [{"tool": query.tools[0]}]}
        for query in queries
    ]
    write_lines(tmp_path / "ann", grades)
    call("verify", "runs/mine", *sets("verify={engine: recorded, replies: ann}"))
    source.write([*BEFORE, "weigh_parcels"])
    call("refresh", "runs/mine")
    publish = ("publish", "runs/mine", "--to", "published")
    export = ("export", "runs/mine", "--format", "jsonl", "--out", "exported")
    for words in (publish, export):
        assert "First: toolbank run runs/mine" in call(*words, code=2).stderr
    call("run", "runs/mine")
    for words in (publish, export):
        call(*words)
    shards = (tmp_path / "published" / "data").glob("t[er]*-*.parquet")
    published = {one for path in shards for one in pl.read_parquet(path)["id"]}
    lines = (tmp_path / "exported" / "queries.jsonl").read_text().splitlines()
    rows = [row for row in map(json.loads, lines) if row["split"] in ("train", "test")]
    assert published == {row["id"] for row in rows} != set()
    assert aside.isdisjoint(published)
