import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.papers.planner.data import TOOLS, make_bank, make_rows, steps_of
from tests.shared import shared
from toolbank.bank.bank import Bank
from toolbank.bank.records import Query, Tool
from toolbank.papers.planner.plans import (
    CandidateSampler,
    PlannerPrompts,
    Situation,
    read_plans,
    read_step,
    search_next,
    unroll,
)
from toolbank.retrievers import create_retriever
from toolbank.retrievers.settings import Bm25Config
from toolbank.system.errors import InputError

NAMES = [tool.name for tool in TOOLS]


@given(st.lists(st.lists(st.sampled_from(NAMES), min_size=1, max_size=6), max_size=8))
def test_unrolling_keeps_order_and_counts(chains):
    queries = tuple(
        Query(
            id=str(number),
            query=f"request {number}",
            tools=tuple(dict.fromkeys(chain)),
            explanation="\n".join(steps_of(chain, "Rome")),
        )
        for number, chain in enumerate(chains)
    )
    plans, left_out = read_plans(Bank(TOOLS, queries), queries)
    examples = unroll(plans)
    assert left_out == 0
    assert [e.step.tool for e in examples] == [name for row in chains for name in row]
    for example in examples:
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


def test_what_makes_no_plan_is_counted_or_refused():
    said = "Think first\n\nCall a to x\nCall nobody to y"
    query = Query(id="1", query="q", tools=("a",), explanation=said)
    none = Query(id="2", query="r", tools=("a",), explanation="Think again")
    bank = Bank((Tool(name="a"),), (query, none))
    plans, left_out = read_plans(bank, bank.queries)
    assert [len(plan.steps) for plan in plans] == [1]
    assert left_out == 3
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


BANK = make_bank(make_rows(12))
EXAMPLES = unroll(read_plans(BANK, BANK.split("train"))[0])
CANDIDATES = CandidateSampler(BANK, 6, seed=3)


@pytest.fixture(scope="module")
def bm25():
    retriever = create_retriever(Bm25Config())
    retriever.fit(BANK)
    return retriever


def test_random_and_gold_candidates_have_the_plans_own_tools():
    chosen = CANDIDATES.choose("random", EXAMPLES)
    assert chosen == CANDIDATES.choose("random", EXAMPLES)
    assert chosen != CandidateSampler(BANK, 6, seed=4).choose("random", EXAMPLES)
    places = set()
    for names, example in zip(chosen, EXAMPLES, strict=True):
        assert len(names) == len(set(names)) == 6
        assert set(example.plan.tools) <= set(names)
        places.add(names.index(example.step.tool))
    assert len(places) > 3
    gold = CANDIDATES.choose("gold", EXAMPLES)
    own = [sorted(example.plan.tools) for example in EXAMPLES]
    assert list(map(sorted, gold)) == own
    assert CANDIDATES.choose("none", EXAMPLES) == [[]] * len(EXAMPLES)
    with pytest.raises(ValueError, match="bm25 needs its retriever"):
        CANDIDATES.choose("bm25", EXAMPLES)


def test_a_retrievers_train_candidates_have_the_plans_tools_put_in(bm25):
    narrow = CandidateSampler(BANK, 2, seed=0, retrievers={"bm25": bm25})
    chosen = narrow.choose_train("bm25", EXAMPLES)
    for names, example in zip(chosen, EXAMPLES, strict=True):
        assert set(example.plan.tools) <= set(names)
        assert len(names) == max(2, len(example.plan.tools))


def test_a_prompt_shows_the_same_tools_in_an_order_of_the_seed(bm25):
    chosen = replace(CANDIDATES, retrievers={"bm25": bm25}).choose("bm25", EXAMPLES)
    shown = CANDIDATES.show(EXAMPLES, chosen, history=False)
    assert shown == CANDIDATES.show(EXAMPLES, chosen, history=False)
    assert [sorted(s.tools) for s in shown] == [sorted(names) for names in chosen]
    assert any(list(s.tools) != names for s, names in zip(shown, chosen, strict=True))
    assert all(s.history == () for s in shown)


def test_the_next_search_is_for_what_is_left(bm25):
    query = "find a room, find a taxi"
    [first] = search_next(bm25, BANK, [query], [[]], 4)
    assert first == [bm25.tools[i] for i in bm25.search([query], 4)[0][0]]
    [left] = search_next(bm25, BANK, [query], [["find_room"]], len(TOOLS))
    assert left[0] == "find_taxi"
    assert left[-1] == "find_room"
    # The words that the tool has served no longer speak for others.
    assert left.index("print_taxi") < left.index("print_room")


def words(text):
    return [sum(word.encode()) for word in text.split()]


def test_the_oldest_steps_are_cut_first():
    prompts = PlannerPrompts(TOOLS)
    history = ("Call a first", "Call b second", "Call c third")
    situation = Situation("Do it all.", (), history)
    whole, is_cut = prompts.fit(situation, words, 1000)
    assert not is_cut
    assert whole == words(prompts.render(situation))
    cut, is_cut = prompts.fit(situation, words, len(whole) - 4)
    assert is_cut
    kept = Situation(situation.request, (), history[2:])
    assert cut == words(prompts.render(kept))
    ids, is_cut = prompts.fit(situation, words, 3)
    assert is_cut
    assert ids == words(prompts.render(Situation("Do it all.", (), ())))[-3:]
