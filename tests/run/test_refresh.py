"""Sources that change while a run lives: nothing is asked for twice, and nothing is lost."""

import json
import shutil
import subprocess
import sys
from copy import copy

import pytest
import yaml

from tests.commands.in_process import do
from tests.run.history import list_tools
from tests.servers.batch import answer_file
from tests.servers.chat import ChatServer
from tests.world import files_under, good
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


class World:
    """A run over a list of functions that is written, and written anew."""

    def __init__(self, folder, server):
        self.server = server
        self.list = folder / "tools.json"
        self.list.write_text(list_tools(NAMES))
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

    def add_source(self, source):
        text = self.path.read_text()
        self.path.write_text(text.replace("sources: [", f"sources: [{source}, "))

    def change(self):
        """Ten tools are added, five removed, five reworded."""
        left = [name for name in NAMES if name not in GONE]
        self.list.write_text(list_tools([*left, *NEW], REWORDED))

    def asked(self, since=0):
        """The tools that asks were wanted for, and how many other calls there were."""
        calls = self.server.calls[since:]
        asked = sorted(call.asked_for for call in calls if call.asked_for)
        return [name.rpartition(".")[2] for name in asked], len(calls) - len(asked)

    def bank(self):
        return Bank.load(self.out / "bank")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
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
    finished.list.write_text(list_tools(NAMES))
    del finished.server.calls[calls:]


@pytest.fixture
def fresh(world):
    shutil.rmtree(world.out)
    return world


def without_splits(queries):
    return [one.model_copy(update={"split": None}) for one in queries]


def last(names):
    return [name.rpartition(".")[2] for name in names]


def test_a_refresh_reports_changes_once_and_calls_no_model(world):
    assert not refresh_run(world.out).kept
    assert not (world.out / "catalogue").exists()
    before, calls = files_under(world.out), len(world.server.calls)
    world.change()
    foreseen = refresh_run(world.out, dry_run=True).changes
    assert files_under(world.out) == before
    done = refresh_run(world.out)
    changes = done.changes
    assert done.kept
    assert len(world.server.calls) == calls
    assert foreseen == changes
    assert last(tool.name for tool in changes.added) == sorted(NEW)
    assert last(tool.name for tool in changes.removed) == sorted(GONE)
    assert sorted(last(changes.changed)) == sorted(REWORDED)
    assert set(changes.changed.values()) == {("summary",)}
    assert changes.same == len(NAMES) - 10
    once = files_under(world.out)
    again = refresh_run(world.out)
    assert not again.kept
    assert not (again.changes.added or again.changes.removed or again.changes.changed)
    assert files_under(world.out) == once


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
    calls, files = len(world.server.calls), files_under(world.out)
    assert not refresh_run(world.out).kept
    assert files_under(world.out) == files
    assert world.run().did == ()
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
    # More than the 20 requests need, in case some do not pass.
    begun = len(sent.read_text().splitlines())
    assert 20 < begun <= 40
    assert refresh_run(fresh.out).catalogue.begins == begun
    output = sent.with_name("batch_1_output.jsonl")
    output.write_text(answer_file(sent.read_text(), good))
    fresh.run(*by_batch)
    with Journal(fresh.out / "journal.sqlite", read_only=True) as journal:
        attempts = list(journal.attempts(["write"]))
    assert attempts == list(range(len(attempts)))
    assert 20 <= len(attempts) <= begun
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
        path = f"bank/{name}.parquet"
        assert (world.out / path).read_bytes() == (
            tmp_path / "other" / path
        ).read_bytes()


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
    asked, others = world.asked(calls)
    assert others == 0
    assert {*asked} == {*NEW, *REWORDED}


@pytest.mark.parametrize("text", ["", list_tools(NAMES[:14]), "{"])
def test_a_source_that_fails_or_is_halved_changes_nothing(world, text):
    before = files_under(world.out)
    world.list.write_text(text)
    for force in (False, True) if len(text) < 20 else (False,):
        with pytest.raises(ToolbankError, match="Nothing was changed"):
            refresh_run(world.out, force=force)
    assert files_under(world.out) == before
    with pytest.raises(ToolbankError):
        world.run()
    changed = before.items() ^ files_under(world.out).items()
    assert not [name for name, _ in changed if "/" in name]
    if len(text) > 20:
        calls = len(world.server.calls)
        assert refresh_run(world.out, force=True).kept
        world.run()
        assert world.asked(calls) == ([], 0)
        assert len(world.bank().tools) == 14


def test_a_loss_is_no_less_where_nothing_was_asked_yet(fresh):
    run_recipe(load_recipe(str(fresh.path)), fresh.out, until="sources")
    fresh.list.write_text(list_tools(NAMES[:14]))
    with pytest.raises(ToolbankError, match="gives 14 tools, where it gave 30"):
        refresh_run(fresh.out)


@pytest.mark.slow
def test_of_two_sources_one_that_fails_loses_its_tools_by_force(fresh):
    other = "functions:other.json"
    listing = fresh.path.with_name("other.json")
    listing.write_text(list_tools(NEW))
    fresh.add_source("{type: functions, path: other.json}")
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
    del given["sources"][0]
    recipe.write_text(yaml.safe_dump(given))
    run_recipe(load_recipe(str(fresh.out)), fresh.out, replace=True)
    assert sorted(last(fresh.bank().tool_names)) == sorted(NAMES)


def test_by_force_every_source_is_read_once(fresh, monkeypatch):
    folder = fresh.path.parent
    monkeypatch.syspath_prepend(folder)
    package, imports = folder / "counted_package.py", folder / "imports.txt"
    package.write_text('def weigh():\n    """Weigh."""\n')
    (folder / "other.json").write_text('[{"name": "a", "description": "B."}]')
    fresh.add_source("{type: functions, path: other.json}")
    fresh.add_source("{type: python, package: counted_package}")
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
    done = do(world.path.parent, "refresh", world.out, "--dry-run", "--json")
    told = json.loads(done.stdout)
    assert (len(told["added"]), len(told["removed"])) == (10, 5)
    assert (told["same"], told["written"]) == (20, False)
    assert told["calls"]["asks"]["calls"] == 15
    assert told["calls"]["generate"]["calls"] == 0
    assert "retrievers/bm25" in told["todo"]
    said = do(world.path.parent, "refresh", world.out).stdout
    for part in (
        *("10 added, 5 removed, 5 changed, 20 the same", "15, one a tool"),
        "To do: generate, asks, judge, profile, retrievers, evaluate, report.",
        f"Next: toolbank run {world.out}",
    ):
        assert part in said
    world.run()
    again = do(world.path.parent, "refresh", world.out)
    assert "Nothing is left to do." in again.stdout
