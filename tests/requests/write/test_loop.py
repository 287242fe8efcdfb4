"""The whole loop against a real local server of the chat-completions protocol."""

import itertools

import pytest

from tests.servers.chat import Answer, ChatServer
from tests.world import SHOP, adds_up, drafted, good, sentence
from toolbank.llm.journal import Journal
from toolbank.requests.write.config import GenerateConfig
from toolbank.requests.write.write_step import generate
from toolbank.system.errors import ToolbankError


def run(server_url, tmp_path, **settings):
    config = GenerateConfig(
        engine="openai",
        base_url=server_url,
        model="m",
        **{"queries": 20, "concurrency": 8, "retries": 2, **settings},
    )
    with Journal(tmp_path / "journal.sqlite") as journal:
        return generate(SHOP, config, domain="shop", seed=0, journal=journal)


def test_good_answers_make_the_wanted_number_of_queries_and_no_call_is_in_vain(
    tmp_path,
):
    with ChatServer(good) as server:
        made = run(server.url, tmp_path)
    assert len(made.value.queries) == made.value.counts["accepted"] == 20
    assert made.value.counts["attempts"] == 20
    assert len(server.calls) == 40
    assert not made.lacks
    first = next(iter(made.value.queries))
    assert first.query == f"Could you, today: {first.draft}"
    assert set(first.tools) <= {tool.name for tool in SHOP}
    assert first.provenance.model == "served-model"


def test_exact_numbers_are_asked_for_counted_and_another_is_rejected(tmp_path):
    def script(call):
        if call.asks_polish or "choose one," in call.prompt:
            return good(call)
        return Answer.json(drafted(call.offered[:3], sentence(call.prompt)))

    shares = {1: 1, 2: 1, 3: 1}
    with ChatServer(script) as server:
        made = run(server.url, tmp_path, tools_per_query=shares, offered=6)
        asked = len(server.calls)
        run(server.url, tmp_path, tools_per_query=shares, offered=6)
        assert len(server.calls) == asked
    # The model says two tools where one is asked for, and else three: a third of the queries.
    numbers = made.value.counts["tools_per_query"]
    assert sum(n["asked"] for n in numbers.values()) == made.value.counts["attempts"]
    assert {n: one["accepted"] for n, one in numbers.items()} == {
        "1": 0,
        "2": 0,
        "3": 6,
    }
    assert made.value.counts["rejected"] == {
        "other-number-of-tools": numbers["1"]["asked"] + numbers["2"]["asked"]
    }
    assert "2, asked for 1" in made.value.info["examples"]["other-number-of-tools"]


def test_every_kind_of_bad_answer_is_counted_by_its_reason(tmp_path):
    kinds = itertools.count()

    def script(call):
        if call.asks_polish:
            return good(call)
        text = sentence(call.prompt)
        fair = drafted(call.offered[:2], text)
        return [
            lambda: good(call),
            lambda: Answer.json({**fair, "declined": True, "reason": "nothing fits"}),
            lambda: Answer.json(
                fair, before="Sure! Here it is:\n```json\n", after="\n```"
            ),
            lambda: Answer.json({"wish": "another schema"}),
            lambda: Answer.json({**fair, "tools": ["no_such_tool", call.offered[0]]}),
            lambda: Answer.json({**fair, "tools": call.offered[:1]}),
            lambda: Answer.json({**fair, "draft": "Too short."}),
            lambda: Answer.json({**fair, "draft": f"{text} By {SHOP[0].name}."}),
            lambda: Answer.text("I would rather not answer in JSON."),
            lambda: Answer.error(400, "this prompt is too long"),
        ][next(kinds) % 10]()

    with ChatServer(script) as server:
        made = run(server.url, tmp_path, concurrency=1, queries=12)
    counts = made.value.counts
    assert adds_up(counts)
    assert counts["accepted"] == 12
    assert counts["declined"] >= 1
    assert set(counts["rejected"]) == {
        "wrong-schema",
        "tool-not-offered",
        "too-few-tools",
        "too-short",
        "identifier",
        "not-json",
    }
    assert counts["failed"]
    assert made.value.info["examples"]["tool-not-offered"][0] == "no_such_tool"


def test_a_second_run_asks_nothing_and_gives_the_same(tmp_path):
    with ChatServer(good) as server:
        first = run(server.url, tmp_path)
        calls = len(server.calls)
        second = run(server.url, tmp_path, concurrency=2)
        assert len(server.calls) == calls
        more = run(server.url, tmp_path, queries=30)
        assert len(server.calls) == calls + 20
    assert list(second.value.queries) == list(first.value.queries)
    assert list(more.value.queries)[:20] == list(first.value.queries)


def test_a_run_that_stopped_midway_goes_on_without_asking_again(tmp_path):
    def script(call):
        return good(call) if call.number < 15 else Answer.error(401, "key expired")

    with ChatServer(script) as server, pytest.raises(ToolbankError, match="401"):
        run(server.url, tmp_path)
    with Journal(tmp_path / "journal.sqlite") as journal:
        kept = len(journal)
    # Every reply that was given out is kept, those in flight at the stop included.
    assert kept == 15
    with ChatServer(good) as server:
        made = run(server.url, tmp_path)
    assert len(server.calls) == 40 - kept
    assert made.value.counts["accepted"] == 20


def test_the_same_seed_gives_the_same_queries_at_any_concurrency(tmp_path):
    with ChatServer(good) as server:
        one = run(server.url, tmp_path / "a", concurrency=1)
        many = run(server.url, tmp_path / "b", concurrency=16)
    assert list(one.value.queries) == list(many.value.queries)
    assert one.value.counts == many.value.counts
