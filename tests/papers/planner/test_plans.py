"""Queries as plans, and plans unrolled to examples."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.papers.planner.data import TOOLS, make_bank, make_rows, steps_of
from tests.shared import shared
from toolbank.bank.bank import Bank
from toolbank.bank.records import Query, Tool
from toolbank.papers.planner.plans import read_plans, read_step, unroll
from toolbank.system.errors import InputError

NAMES = [tool.name for tool in TOOLS]


@given(st.lists(st.lists(st.sampled_from(NAMES), min_size=1, max_size=6), max_size=8))
def test_unrolling_keeps_order_and_counts(chains):
    rows = [
        {
            "id": str(number),
            "query": f"request {number}",
            "tools": list(dict.fromkeys(chain)),
            "steps": steps_of(chain, "Rome"),
            "split": "train",
        }
        for number, chain in enumerate(chains)
    ]
    bank = make_bank(rows)
    plans, left_out = read_plans(bank, bank.queries)
    examples = unroll(plans)
    assert left_out == 0
    assert len(examples) == sum(map(len, chains))
    assert [e.step.tool for e in examples] == [name for row in chains for name in row]
    for example in examples:
        assert len(example.history) == example.number
        assert example.history == example.plan.steps[: example.number]
        assert example.is_last == (example.number + 1 == len(example.plan.steps))


def test_a_steps_tool_is_the_one_it_names_also_where_it_is_used_twice():
    steps = ["Step 1 Call a to x", "Step 2 Call b to y", "Step 3 Call a to z"]
    query = Query(id="1", query="q", tools=("a", "b"), explanation="\n".join(steps))
    bank = Bank((Tool(name="a"), Tool(name="b")), (query,))
    [plan], _ = read_plans(bank, bank.queries)
    assert [(step.tool, step.text) for step in plan.steps] == [
        ("a", "Call a to x"),
        ("b", "Call b to y"),
        ("a", "Call a to z"),
    ]
    assert plan.tools == ("a", "b")


def test_lines_that_name_no_tool_are_counted_and_left_out():
    said = "Think first\n\nCall a to x\nCall nobody to y"
    query = Query(id="1", query="q", tools=("a",), explanation=said)
    none = Query(id="2", query="r", tools=("a",), explanation="Think again")
    bank = Bank((Tool(name="a"),), (query, none))
    plans, left_out = read_plans(bank, bank.queries)
    assert [len(plan.steps) for plan in plans] == [1]
    assert left_out == 3


@pytest.mark.parametrize(
    ("line", "text", "tool"),
    [
        ("Step 3 Call a.b to x", "Call a.b to x", "a.b"),
        ("2. call the `a.b`, now", "call the `a.b`, now", "a.b"),
        ("Use a.b.", "Use a.b.", "a.b"),
        ("Call them by a.b", "Call them by a.b", "a.b"),
    ],
)
def test_a_step_is_read_without_its_number(line, text, tool):
    step = read_step(line, {"a.b"})
    assert (step.text, step.tool) == (text, tool)


def test_an_unordered_bank_has_no_plans():
    bank = make_bank(make_rows(4))
    bank.info["ordered"] = False
    with pytest.raises(InputError, match="ordered: true"):
        read_plans(bank, bank.queries)


def test_steps_of_ultratool_that_differ_from_the_tools_order():
    rows = [
        json.loads(line)
        for line in shared("data/ultratool/queries.jsonl").open(encoding="utf-8")
    ]
    lines = shared("data/ultratool/tools.jsonl").open(encoding="utf-8")
    tools = tuple(Tool(name=json.loads(line)["name"]) for line in lines)
    bank = Bank(tools, make_bank(rows).queries)
    plans, left_out = read_plans(bank, bank.queries)
    steps = len(unroll(plans))
    assert (len(plans), steps, left_out) == (3526, 8922, 18)
