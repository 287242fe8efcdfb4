"""The whole loop against a real local server of the chat-completions protocol."""

import pytest

from tests.servers.chat import Answer, ChatServer
from tests.world import SHOP, drafted, good, sentence
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
