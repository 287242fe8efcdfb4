"""Sources that change while a run lives: nothing is asked for twice, and nothing is lost."""

import json
import shutil
import subprocess
import sys
from copy import copy

import pytest
import yaml

from tests.commands.in_process import do, toolbank
from tests.servers.batch import answer_file
from tests.servers.chat import ChatServer
from tests.world import good
from toolbank.bank.bank import Bank
from toolbank.bank.files import read_attempts
from toolbank.commands.refresh import describe
from toolbank.commands.show import show_one
from toolbank.llm.journal import Journal
from toolbank.run.recipe import load_recipe
from toolbank.run.refresh import refresh_run
from toolbank.run.result import describe_result
from toolbank.run.run import run_recipe
from toolbank.search.run_search import load
from toolbank.system.errors import ToolbankError
from toolbank.system.files import read_json

NOUNS = ("orders", "letters", "returns", "prices", "gloves", "kettles")
VERBS = ("find", "total", "list", "merge", "paint")
NAMES = [f"{verb}_{noun}" for verb in VERBS for noun in NOUNS]
NEW = [f"weigh_{noun}" for noun in (*NOUNS, "stamps", "ropes", "lamps", "chairs")]
GONE, REWORDED = NAMES[:5], NAMES[10:15]


def listed(names, reworded=()):
    """The text of a list with a function for each name."""
    customer = {"type": "string", "description": "Whose."}
    parameters = {"type": "object", "properties": {"customer": customer}}
    rows = []
    for name in names:
        more = ", oldest first" if name in reworded else ""
        text = f"{name.replace('_', ' the ').title()} of a customer{more}."
        rows.append({"name": name, "description": text, "parameters": parameters})
    return json.dumps(rows)


class World:
    """A run over a list of functions that is written, and written anew."""

    def __init__(self, folder, server):
        self.server = server
        self.list = folder / "tools.json"
        self.list.write_text(listed(NAMES))
        self.out = folder / "run"
        self.path = folder / "mine.yaml"
        self.path.write_text(
            f"name: mine\nsources: [{{type: functions, path: {self.list}}}]\n"
            f"generate: {{base_url: {server.url}, model: m, queries: 20, engine: openai}}\n"
            "asks: {per_tool: 2}\n"
            "baselines: false\nretrievers: [{type: bm25}]\n"
        )

    def run(self, *settings, out=None):
        return run_recipe(load_recipe(str(self.path), settings), out or self.out)

    def change(self):
        """Ten tools are added, five removed, five reworded."""
        left = [name for name in NAMES if name not in GONE]
        self.list.write_text(listed([*left, *NEW], REWORDED))

    def asked(self, since=0):
        """The tools that asks were wanted for, and how many other calls there were."""
        calls = self.server.calls[since:]
        asked = sorted(call.asked_for for call in calls if call.asked_for)
        return [name.rpartition(".")[2] for name in asked], len(calls) - len(asked)

    def bank(self):
        return Bank.load(self.out / "bank")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A world whose run was made, for all tests to start from."""
    folder = tmp_path_factory.mktemp("world")
    with ChatServer(good) as server:
        world = World(folder, server)
        world.run()
        yield world


@pytest.fixture
def world(finished, tmp_path):
    """The same with a copy of its run, and the calls that this took."""
    calls = len(finished.server.calls)
    world = copy(finished)
    world.out = tmp_path / "run"
    world.path = tmp_path / "mine.yaml"
    shutil.copytree(finished.out, world.out)
    shutil.copy(finished.path, world.path)
    yield world
    finished.list.write_text(listed(NAMES))
    del finished.server.calls[calls:]


@pytest.fixture
def fresh(world):
    """The same before its run."""
    shutil.rmtree(world.out)
    return world


def files(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def without_splits(queries):
    return [one.model_copy(update={"split": None}) for one in queries]


def last(names):
    return [name.rpartition(".")[2] for name in names]


def test_it_says_what_was_added_removed_and_reworded_and_calls_no_model(world):
    before, calls = files(world.out), len(world.server.calls)
    world.change()
    foreseen = refresh_run(world.out, dry_run=True).changes
    assert files(world.out) == before
    changes = refresh_run(world.out).changes
    assert len(world.server.calls) == calls
    assert foreseen == changes
    assert last(tool.name for tool in changes.added) == sorted(NEW)
    assert last(tool.name for tool in changes.removed) == sorted(GONE)
    assert sorted(last(changes.changed)) == sorted(REWORDED)
    assert set(changes.changed.values()) == {("summary",)}
    assert changes.same == len(NAMES) - 10


def test_a_second_time_changes_nothing(world):
    assert not refresh_run(world.out).kept
    assert not (world.out / "catalogue").exists()
    world.change()
    assert refresh_run(world.out).kept
    once = files(world.out)
    again = refresh_run(world.out)
    assert not again.kept
    assert not (again.changes.added or again.changes.removed or again.changes.changed)
    assert files(world.out) == once
    world.run()
    after = files(world.out)
    assert not refresh_run(world.out).kept
    assert files(world.out) == after


def test_new_tools_are_found_at_once_and_removed_ones_no_more(world):
    world.change()
    assert not any(
        "weigh" in hit.tool.name for hit in load(world.out).search("weigh ropes")
    )
    refresh_run(world.out)
    finder = load(world.out)
    assert last([finder.search("weigh the ropes")[0].tool.name]) == ["weigh_ropes"]
    names = last(tool.name for tool in finder.tools)
    assert sorted(names) == sorted({*NAMES, *NEW} - {*GONE})
    everything = finder.search("find the orders of a customer", 40)
    assert not {*GONE} & {*last(hit.tool.name for hit in everything)}


@pytest.mark.parametrize("refreshes", [True, False])
def test_the_next_run_asks_for_new_and_changed_tools_alone(world, refreshes):
    assert sorted(world.asked()[0]) == sorted(NAMES)
    before, calls = world.bank(), len(world.server.calls)
    attempts = list(read_attempts(world.out / "bank/attempts.parquet"))
    world.change()
    if refreshes:
        refresh_run(world.out)
    result = world.run()
    assert (world.out / "catalogue/versions.json").is_file()
    assert world.asked(calls) == (sorted([*NEW, *REWORDED]), 0)
    assert {"generate", "asks", "retrievers/bm25"} <= {*result.did}
    assert list(read_attempts(world.out / "bank/attempts.parquet")) == attempts
    after = world.bank()
    assert without_splits(after.queries) == without_splits(before.queries)
    kept = {name for name in last(before.tool_names) if name not in (*GONE, *REWORDED)}
    assert [one for one in after.asks if last([one.tool])[0] in kept] == [
        one for one in before.asks if last([one.tool])[0] in kept
    ]
    calls = len(world.server.calls)
    assert world.run().did == ()
    assert not refresh_run(world.out).kept
    assert len(world.server.calls) == calls


def test_a_request_that_needs_a_removed_tool_leaves_training_and_test(world):
    before = {query.id: query for query in world.bank().queries}
    world.change()
    told = refresh_run(world.out).lost_requests
    world.run()
    left_out = [query for query in world.bank().queries if query.split is None]
    assert 0 < len(left_out) == told < len(before)
    for query in world.bank().queries:
        needs = bool({*last(query.tools)} & {*GONE})
        assert query.split == (None if needs else before[query.id].split)
    removed = read_json(world.out / "bank/bank.json")["removed"]
    assert removed["queries_left_out"] == told
    assert {*last(removed["tools"])} <= {*GONE}
    told = show_one(world.out, left_out[0].id)
    assert "the sources no longer have" in told
    assert f"{len(left_out)} request" in describe_result(world.run())


def test_more_requests_are_dealt_from_the_new_tools_and_none_is_asked_again(world):
    world.change()
    refresh_run(world.out)
    world.run()
    calls = len(world.server.calls)
    world.run("generate.queries=40")
    asked, others = world.asked(calls)
    assert (asked, others) == ([], 2 * 20)
    offered = {
        name for call in world.server.calls[calls:] for name in last(call.offered)
    }
    assert offered & {*NEW}
    assert not offered & {*GONE}


def test_requests_that_are_on_their_way_in_a_batch_keep_their_hands(fresh):
    by_batch = ("generate.engine=batch", "asks.engine=rules")
    assert fresh.run(*by_batch).waiting
    [sent] = (fresh.out / "batch").glob("round-001-write-*.jsonl")
    fresh.change()
    assert refresh_run(fresh.out).catalogue.begins == 20
    output = sent.with_name("batch_1_output.jsonl")
    output.write_text(answer_file(sent.read_text(), good))
    fresh.run(*by_batch)
    with Journal(fresh.out / "journal.sqlite", read_only=True) as journal:
        assert list(journal.attempts(["write"])) == list(range(20))
    rounds = sorted(path.name for path in (fresh.out / "batch").glob("round-002-*"))
    assert rounds[0].startswith("round-002-polish")
    assert not [name for name in rounds if "write" in name]


def test_the_bank_is_the_same_at_any_concurrency(world, tmp_path):
    world.change()
    refresh_run(world.out)
    shutil.copytree(world.out, tmp_path / "other")
    world.run("generate.queries=40")
    world.run("generate.queries=40", "generate.concurrency=1", out=tmp_path / "other")
    for name in ("tools", "queries", "attempts", "asks"):
        one, other = (
            (out / f"bank/{name}.parquet").read_bytes()
            for out in (world.out, tmp_path / "other")
        )
        assert one == other


KILLED = """
import os, sys
from pathlib import Path
left, replace = [int(sys.argv[2])], Path.replace
def kill(self, target):
    if "cache" not in str(target) and left[0] == 0: os._exit(9)
    left[0] -= 1
    return replace(self, target)
Path.replace = kill
from toolbank.run.refresh import refresh_run
refresh_run(Path(sys.argv[1]))
"""


@pytest.mark.slow
def test_after_a_kill_in_the_middle_it_is_brought_to_its_end(world):
    calls = len(world.server.calls)
    world.change()
    killed = {}
    for n in range(7):
        copy = world.out.with_name(f"killed-{n}")
        shutil.copytree(world.out, copy)
        command = [sys.executable, "-c", KILLED, str(copy), str(n)]
        killed[n] = subprocess.run(command).returncode
        refresh_run(copy)
        tools = Bank.load(copy / "bank").tool_names
        assert {*NEW} <= {*last(tools)}
        versions = read_json(copy / "catalogue/versions.json")["versions"]
        assert len(versions) == 2
        assert not refresh_run(copy).kept
        world.run(out=copy)
    assert 9 in killed.values()
    # Each copy asks for what is new; nothing that was paid for before is asked again.
    asked, others = world.asked(calls)
    assert others == 0
    assert {*asked} == {*NEW, *REWORDED}


@pytest.mark.parametrize("text", ["", listed(NAMES[:14]), "{"])
def test_a_source_that_fails_or_is_halved_changes_nothing(world, text):
    before = files(world.out)
    world.list.write_text(text)
    for force in (False, True) if len(text) < 20 else (False,):
        with pytest.raises(ToolbankError, match="Nothing was changed"):
            refresh_run(world.out, force=force)
    assert files(world.out) == before
    with pytest.raises(ToolbankError):
        world.run()
    left = {name: text for name, text in files(world.out).items() if "/" in name}
    assert left == {name: text for name, text in before.items() if "/" in name}
    if len(text) > 20:
        calls = len(world.server.calls)
        assert refresh_run(world.out, force=True).kept
        world.run()
        assert world.asked(calls) == ([], 0)
        assert len(world.bank().tools) == 14


def test_a_loss_is_no_less_where_nothing_was_asked_yet(fresh):
    run_recipe(load_recipe(str(fresh.path)), fresh.out, until="sources")
    fresh.list.write_text(listed(NAMES[:14]))
    with pytest.raises(ToolbankError, match="gives 14 tools, where it gave 30"):
        refresh_run(fresh.out)


@pytest.mark.slow
def test_of_two_sources_one_that_fails_loses_its_tools_by_force(fresh):
    other = "functions:other.json"
    listing = fresh.path.with_name("other.json")
    listing.write_text(listed(NEW))
    text = fresh.path.read_text()
    fresh.path.write_text(
        text.replace("sources: [", "sources: [{type: functions, path: other.json}, ")
    )
    fresh.run()
    listing.write_text("{")
    kept = refresh_run(fresh.out)
    assert (kept.changes.removed, kept.stale) == ((), (other,))
    offer = f"out of the run: toolbank refresh {fresh.out} --force"
    assert offer in " ".join("\n".join(describe(kept)).split())
    assert load(fresh.out).search("weigh")
    forced = refresh_run(fresh.out, force=True)
    assert sorted(last(tool.name for tool in forced.changes.removed)) == sorted(NEW)
    told = "\n".join(describe(forced))
    recipe = fresh.out / "recipe.yaml"
    assert f"Next: take {other} out of {recipe}" in told
    assert f"toolbank run {fresh.out} --replace" in told
    assert "not valid JSON" in told
    assert not load(fresh.out).search("weigh")
    given = yaml.safe_load(recipe.read_text())
    given["sources"] = [
        one for one in given["sources"] if not one["path"].endswith("other.json")
    ]
    recipe.write_text(yaml.safe_dump(given))
    run_recipe(load_recipe(str(fresh.out)), fresh.out, replace=True)
    assert sorted(last(fresh.bank().tool_names)) == sorted(NAMES)


def test_by_force_every_source_is_read_once(fresh, monkeypatch):
    folder = fresh.path.parent
    monkeypatch.syspath_prepend(folder)
    package, imports = folder / "counted_package.py", folder / "imports.txt"
    package.write_text('def weigh():\n    """Weigh."""\n')
    (folder / "other.json").write_text('[{"name": "a", "description": "B."}]')
    text = fresh.path.read_text()
    others = (
        "{type: functions, path: other.json}, {type: python, package: counted_package}"
    )
    fresh.path.write_text(text.replace("sources: [", f"sources: [{others}, "))
    fresh.run()
    (folder / "other.json").write_text("{")
    package.write_text(
        f"open({str(imports)!r}, 'a').write('1')\n" + package.read_text()
    )
    assert refresh_run(fresh.out, force=True).unread == ("functions:other.json",)
    assert imports.read_text() == "1"


def test_the_writer_without_a_model_keeps_its_requests_and_asks_for_what_is_new(fresh):
    by_rules = ("generate.engine=rules", "asks.engine=rules")

    def replies():
        with Journal(fresh.out / "journal.sqlite", read_only=True) as journal:
            return sum(row.replies for row in journal.usage() if row.step == "ask")

    fresh.run(*by_rules)
    count, before = replies(), fresh.bank()
    fresh.change()
    refresh_run(fresh.out)
    fresh.run(*by_rules, "generate.queries=60")
    after = fresh.bank()
    queries = after.queries[: len(before.queries)]
    assert without_splits(queries) == without_splits(before.queries)
    assert {*NEW} & {name for one in after.queries for name in last(one.tools)}
    assert (count, replies()) == (30, 45)
    left = {*last(one.tool for one in before.asks)} - {*GONE, *REWORDED}
    kept, now = (
        [one for one in bank.asks if last([one.tool])[0] in left]
        for bank in (before, after)
    )
    assert kept == now


def test_the_command_says_what_is_to_do_and_what_it_costs(world):
    world.change()
    done = do(world.path.parent, "refresh", str(world.out), "--dry-run", "--json")
    told = json.loads(done.stdout)
    assert (len(told["added"]), len(told["removed"])) == (10, 5)
    assert (told["same"], told["written"]) == (20, False)
    assert told["calls"]["asks"]["calls"] == 15
    assert told["calls"]["generate"]["calls"] == 0
    assert "retrievers/bm25" in told["todo"]
    done = toolbank("refresh", str(world.out), cwd=world.path.parent)
    assert "10 added, 5 removed, 5 changed, 20 the same" in done.stdout
    assert "15, one a tool" in done.stdout
    assert "To do: generate, asks, judge, retrievers, evaluate, report." in done.stdout
    assert f"Next: toolbank run {world.out}" in done.stdout
    calls = len(world.server.calls)
    world.run()
    assert len(world.server.calls) == calls + 15
    done = toolbank("refresh", str(world.out), cwd=world.path.parent)
    assert "Nothing is left to do." in done.stdout
