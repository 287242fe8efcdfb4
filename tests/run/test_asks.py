"""The asks of a run: a stage of its own, and what every command says of it."""

import re
from pathlib import Path

import pytest
import yaml
from selectolax.lexbor import LexborHTMLParser

from tests.servers.chat import Answer
from tests.world import asks_for, write_dataset, write_dataset_recipe, write_recipe
from toolbank.bank.bank import Bank
from toolbank.commands.preview import preview_attempts
from toolbank.commands.show import show_one, show_outcomes
from toolbank.run.plan import describe_plan
from toolbank.run.recipe import load_recipe
from toolbank.run.result import describe_result
from toolbank.run.run import run_recipe
from toolbank.system.files import read_json


@pytest.fixture
def recipe(tmp_path, server):
    """Loads a recipe whose queries the rules write and whose asks a model; or with changes."""
    path = write_recipe(tmp_path, engine="rules", queries=12)
    by_model = f"asks={{engine: openai, model: m, base_url: '{server.url}'}}"
    return lambda *settings: load_recipe(path, [by_model, *settings])


@pytest.fixture
def out(tmp_path):
    return tmp_path / "run"


def tools_of(out):
    return [tool.name for tool in Bank.load(out / "bank").tools]


def asked(server):
    return [call.asked_for for call in server.calls if call.asked_for]


def test_asks_come_between_queries_and_retrievers(recipe, server, out):
    result = run_recipe(recipe(), out)
    kinds = [stage.partition("/")[0] for stage in result.did]
    stages = "sources generate asks judge profile retrievers evaluate report"
    assert kinds == stages.split()
    asks = Bank.load(out / "bank").asks
    expected = [(tool, kind) for tool in tools_of(out) for kind in asks_for(tool)]
    assert [(one.tool, one.kind) for one in asks] == expected
    assert sorted(asked(server)) == tools_of(out)
    assert run_recipe(recipe(), out).did == ()


def test_a_recipe_without_asks_has_the_same_bank(recipe, server, out, tmp_path):
    plain = run_recipe(recipe("asks=null"), out, until="judge")
    assert plain.did == ("sources", "generate", "judge")
    assert "asks" not in yaml.safe_load((out / "recipe.yaml").read_text())
    assert not list((out / "bank").glob("asks*"))
    assert not server.calls
    run_recipe(recipe(), tmp_path / "other", until="asks")
    for name in ("tools.parquet", "queries.parquet", "attempts.parquet"):
        other = tmp_path / "other/bank" / name
        assert (out / "bank" / name).read_bytes() == other.read_bytes()


def test_removed_asks_are_no_longer_trained_on(recipe, server, out, capsys):
    run_recipe(recipe(), out)
    without = run_recipe(recipe("asks=null"), out)
    assert "asks.parquet" in capsys.readouterr().err
    assert without.did == ("profile", "retrievers/bm25", "evaluate", "report")
    assert Bank.load(out / "bank").asks == ()
    calls = len(server.calls)
    again = run_recipe(recipe(), out)
    assert again.did == ("asks", "profile", "retrievers/bm25", "evaluate", "report")
    assert len(Bank.load(out / "bank").asks) == 4 * len(tools_of(out))
    assert len(server.calls) == calls


def test_asks_that_are_missing_are_told_with_what_to_do(recipe, server, out):
    part = run_recipe(recipe("asks.budget.calls=3"), out)
    told = " ".join(describe_result(part).split())
    assert "the budget of 3 calls is spent" in told
    assert f"Next: toolbank run {out} --set asks.budget.calls=6" in told
    assert len(server.calls) == 3
    run_recipe(recipe(), out)
    assert sorted(asked(server)) == tools_of(out)


def test_a_tool_that_is_withheld_has_no_asks(recipe, out):
    run_recipe(recipe("split.withhold_tools=0.2"), out, until="asks")
    withheld = read_json(out / "bank/bank.json")["withheld"]["tools"]
    assert withheld
    asked_for = {one.tool for one in Bank.load(out / "bank").asks}
    assert asked_for == set(tools_of(out)) - set(withheld)


def test_a_plan_counts_the_calls_that_the_journal_lacks(recipe, server, out):
    def plan(*settings):
        return " ".join(describe_plan(recipe(*settings), out).split())

    before = plan("asks.price={input: 100, output: 100}")
    assert not server.calls
    run_recipe(recipe(), out, until="asks")
    n = len(tools_of(out))
    assert f"Asks: 4 for each of {n} tools, by m at {server.url} calls {n}," in before
    assert "cost about $" in before
    assert "asks done" in plan()
    more = plan("asks.near_duplicate=0.9")
    assert f"journal holds {n} replies already" in more
    assert "price" not in more
    assert "Asks: at most 4 for each" in plan("asks.engine=rules")


def test_a_preview_shows_both_kinds_of_calls_and_keeps_nothing(recipe, server, out):
    shown = list(preview_attempts(recipe().recipe, out, 2))
    assert len(shown) == 4
    [first, second] = asked(server)
    assert f"asks for {min(first, second)}" in shown[2]
    assert f">>> plain: accepted: {asks_for(min(first, second))['plain']}" in shown[2]
    assert not out.exists()


def test_what_became_of_an_ask_can_be_looked_up(recipe, server, out):
    def script(call):
        reply = asks_for(call.asked_for)
        return Answer.json({**reply, "voiced": "no"} if call.number == 0 else reply)

    server.script = script
    run_recipe(recipe(), out, until="asks")
    bad = server.calls[0].asked_for
    told = show_outcomes(out)
    assert re.search(rf"too-short +1 +{re.escape(bad)}", told)
    one = show_one(out, bad)
    assert "asks for it alone: 3" in one
    assert "voiced  rejected: too-short (1 words, at least 6)" in one
    assert server.calls[0].prompt.strip() in one
    assert '"voiced": "no"' in one


def test_the_report_tells_how_asks_ended_and_what_their_calls_took(recipe, server, out):
    def script(call):
        reply = asks_for(call.asked_for)
        return Answer.json({**reply, "terse": ""} if call.number < 2 else reply)

    server.script = script
    result = run_recipe(recipe(), out)
    page = LexborHTMLParser(result.folder.report.read_text(encoding="utf-8"))
    made = " ".join(page.css_first("#made").text(separator=" ").split())
    n = len(tools_of(out))
    assert f"{4 * n - 2} asks for {n} tools" in made
    assert "not written by the writer 2" in made
    assert f"terse {n - 2} 2 0 0" in made
    assert f"ask {n} " in made


def test_asks_for_the_tools_of_a_dataset(tmp_path, server, out):
    names = ["weigh", "sort", "paint"]
    query = {"query": "How heavy is it?", "tools": ["weigh"], "split": "test"}
    write_dataset(tmp_path / "data", names, [query])
    words = {"type": "bm25", "name": "words", "requests": True}
    path = write_dataset_recipe(
        tmp_path, "theirs", retrievers=[{"type": "bm25"}, words]
    )
    loaded = load_recipe(path, [f"asks.base_url={server.url}", "asks.model=m"])
    assert "Asks: 4 for each of 3 tools" in describe_plan(loaded, out)
    assert len(list(preview_attempts(loaded.recipe, out, 5))) == 3
    result = run_recipe(loaded, out, until="evaluate")
    assert result.did[:2] == ("dataset", "asks")
    assert len(Bank.load(out / "bank").asks) == 12
    assert "All for one" in show_outcomes(out)
    indexed = "".join(map(Path.read_text, (out / "models/words").glob("*.json")))
    assert asks_for("weigh")["larger"] in indexed
