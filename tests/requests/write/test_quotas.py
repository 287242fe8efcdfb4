"""What a recipe sets by `tools_per_query` is what the bank has, with engines made for it."""

import json
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engines import kind_of
from tests.requests.write.test_attempts import Uneven
from tests.world import SHOP, adds_up, drafted, polished, sentence
from toolbank.llm.chat import ChatReply
from toolbank.llm.journal import Journal
from toolbank.requests.write.config import GenerateConfig, share_out
from toolbank.requests.write.write_step import generate

SHARES = {1: 0.25, 2: 0.35, 4: 0.4}
EXACTLY = {1: 10, 2: 14, 4: 16}


def picky(request):
    """Decline the more often the more tools are requested."""
    text = sentence(request.attempt)
    if request.step == "polish":
        return ChatReply(json.dumps(polished(text)), "m", 10, 5)
    number = request.task.at_most
    names = [tool.name for tool in request.task.tools[:number]]
    drawn = random.Random(request.attempt)
    reply = {**drafted(names, text), "declined": drawn.random() < 0.15 * number}
    return ChatReply(json.dumps(reply), "m", 10, 5)


@pytest.fixture
def run(tmp_path, monkeypatch):
    def run_engine(engine, folder="run", **settings):
        monkeypatch.setattr("toolbank.llm.step.find_engine", lambda _: kind_of(engine))
        settings = {"queries": 40, "tools_per_query": SHARES, "offered": 4} | settings
        config = GenerateConfig(model="m", **settings)
        (tmp_path / folder).mkdir(exist_ok=True)
        with Journal(tmp_path / folder / "journal.sqlite") as journal:
            return generate(SHOP, config, domain="shop", seed=0, journal=journal)

    return run_engine


def numbers(made):
    return Counter(len(query.tools) for query in made.value.queries)


def test_a_bank_has_exactly_the_shares_that_are_set_and_no_call_is_for_nothing(run):
    engine = Uneven(script=picky)
    made = run(engine, concurrency=16)
    assert not made.lacks
    assert numbers(made) == EXACTLY
    assert adds_up(made.value.counts)
    counted = made.value.counts["tools_per_query"]
    assert {int(n): row["accepted"] for n, row in counted.items()} == EXACTLY
    assert sum(row["asked"] for row in counted.values()) == len(made.value.attempts)
    assert set(engine.tries.values()) == {1}
    assert {n for n, _ in engine.tries} == {row.attempt for row in made.value.attempts}


def test_the_bank_is_the_same_at_any_concurrency_and_after_it_was_stopped(run):
    whole = run(Uneven(script=picky), concurrency=1)
    many = run(Uneven(script=picky), "many", concurrency=32)
    stopped = run(Uneven(script=picky), "stopped", concurrency=8, budget={"calls": 31})
    assert stopped.lacks
    again = run(Uneven(script=picky), "stopped", concurrency=8)
    for made in (many, again):
        assert list(made.value.queries) == list(whole.value.queries)
        assert list(made.value.attempts) == list(whole.value.attempts)


def test_more_queries_keep_those_that_there_are(run):
    some = run(Uneven(script=picky))
    more = run(Uneven(script=picky), queries=80)
    assert numbers(more) == {n: 2 * count for n, count in EXACTLY.items()}
    assert {q.id for q in some.value.queries} <= {q.id for q in more.value.queries}


def test_a_number_that_is_declined_too_often_is_told(run):
    def script(request):
        reply = picky(request)
        if request.step == "polish" or request.task.at_most < 4:
            return reply
        return ChatReply(json.dumps(json.loads(reply.text) | {"declined": True}), "m")

    made = run(Uneven(script=script), max_attempts=150)
    assert numbers(made) == {1: 10, 2: 14}
    assert "0 of 16 queries with 4 tools" in made.problems


@given(
    st.dictionaries(st.integers(1, 9), st.floats(0.01, 100), min_size=1),
    st.integers(1, 5000),
)
def test_shares_become_whole_numbers_that_add_up(shares, wanted):
    counts = share_out(shares, wanted)
    assert sum(counts.values()) == wanted
    for number, share in shares.items():
        assert abs(counts[number] - wanted * share / sum(shares.values())) < 1
