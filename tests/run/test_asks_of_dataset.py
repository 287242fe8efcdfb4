"""A run on a dataset that brings asks of its own."""

import pytest

from tests.world import write_dataset, write_dataset_recipe, write_lines
from toolbank.bank.bank import Bank
from toolbank.run.plan import describe_plan
from toolbank.run.recipe import load_recipe
from toolbank.run.result import describe_result
from toolbank.run.run import run_recipe
from toolbank.search.run_search import load
from toolbank.system.errors import InputError

ASKS = [
    {"tool": name, "kind": "terse", "ask": f"{name} it by the river"}
    for name in ("weigh", "sort", "paint")
]


@pytest.fixture
def out(tmp_path):
    return tmp_path / "run"


@pytest.fixture
def theirs(tmp_path):
    """Loads a recipe of a test set that has asks of its own; or with changes."""
    tools = [{"name": a["tool"], "description": f"To {a['tool']}."} for a in ASKS]
    queries = [
        {"query": f"How, {n} times?", "tools": ["sort"], "split": "test"}
        for n in range(4)
    ]
    write_dataset(tmp_path / "data", tools, queries, asks=ASKS)
    words = {"type": "bm25", "name": "words", "requests": True}
    path = write_dataset_recipe(tmp_path, "theirs", retrievers=[words])
    return lambda *settings: load_recipe(path, settings)


def test_asks_that_come_with_a_dataset_are_trained_on(theirs, out, tmp_path):
    assert "3 tools, 4 queries, 3 asks" in describe_plan(theirs(), out)
    result = run_recipe(theirs(), out)
    assert result.did == (
        "dataset",
        "profile",
        "retrievers/words",
        "evaluate",
        "report",
    )
    bank = Bank.load(out / "bank")
    assert [(one.tool, one.ask) for one in bank.asks] == [
        (ask["tool"], ask["ask"]) for ask in ASKS
    ]
    assert bank.info["counts"] == {"tools": 3, "queries": 4, "asks": 3}
    assert "3 asks" in describe_result(result)
    [hit] = load(out).search("the river to paint by", 1)
    assert hit.tool.name == "paint"
    assert run_recipe(theirs(), out).did == ()
    others = [{**ask, "ask": "take it to the attic"} for ask in ASKS[:2]]
    write_lines(tmp_path / "data/asks.jsonl", others)
    again = run_recipe(theirs(), out)
    assert again.did == ("dataset", "profile", "retrievers/words", "evaluate", "report")
    assert len(Bank.load(out / "bank").asks) == 2


def test_a_dataset_whose_asks_are_gone_trains_on_none(theirs, out, tmp_path):
    run_recipe(theirs(), out)
    (tmp_path / "data/asks.jsonl").unlink()
    with pytest.raises(InputError, match="no train queries"):
        run_recipe(theirs(), out)
    run_recipe(theirs("retrievers.words.requests=false"), out)
    assert Bank.load(out / "bank").asks == ()


def test_asks_of_a_dataset_are_left_out_where_their_tool_is_withheld(theirs, out):
    run_recipe(theirs("split.withhold_tools=0.34"), out)
    bank = Bank.load(out / "bank")
    [withheld] = bank.info["withheld"]["tools"]
    assert {one.tool for one in bank.asks} == set(bank.tool_names) - {withheld}
    assert bank.info["left_out"]["ask: for a tool that is withheld"]["count"] == 1


def test_a_dataset_with_asks_is_given_no_others(theirs, out):
    model = ["asks.base_url=http://127.0.0.1:9/v1", "asks.model=m"]
    with pytest.raises(InputError, match="3 asks of its own"):
        run_recipe(theirs(*model), out)
    assert not out.exists() or not (out / "bank").exists()
