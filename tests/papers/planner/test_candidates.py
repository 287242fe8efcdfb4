"""The tools that prompts show, and what fits into a prompt."""

from dataclasses import replace

import pytest

from tests.papers.planner.data import TOOLS, make_bank, make_rows
from toolbank.papers.planner.plans import (
    CandidateSampler,
    PlannerPrompts,
    Situation,
    read_plans,
    search_next,
    unroll,
)
from toolbank.retrievers import create_retriever
from toolbank.retrievers.settings import Bm25Config

BANK = make_bank(make_rows(12))
EXAMPLES = unroll(read_plans(BANK, BANK.split("train"))[0])
CANDIDATES = CandidateSampler(BANK, 6, seed=3)


@pytest.fixture(scope="module")
def bm25():
    retriever = create_retriever(Bm25Config())
    retriever.fit(BANK)
    return retriever


def test_the_plans_own_tools_are_among_random_ones_at_any_place():
    chosen = CANDIDATES.choose("random", EXAMPLES)
    assert chosen == CANDIDATES.choose("random", EXAMPLES)
    assert chosen != CandidateSampler(BANK, 6, seed=4).choose("random", EXAMPLES)
    places = set()
    for names, example in zip(chosen, EXAMPLES, strict=True):
        assert len(names) == len(set(names)) == 6
        assert set(example.plan.tools) <= set(names)
        places.add(names.index(example.step.tool))
    assert len(places) > 3


def test_gold_and_none():
    gold = CANDIDATES.choose("gold", EXAMPLES)
    assert all(
        sorted(n) == sorted(e.plan.tools) for n, e in zip(gold, EXAMPLES, strict=True)
    )
    assert CANDIDATES.choose("none", EXAMPLES) == [[]] * len(EXAMPLES)


def test_a_retrievers_train_candidates_have_the_plans_tools_put_in(bm25):
    narrow = CandidateSampler(BANK, 2, seed=0, retrievers={"bm25": bm25})
    for names, example in zip(
        narrow.choose_train("bm25", EXAMPLES), EXAMPLES, strict=True
    ):
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
