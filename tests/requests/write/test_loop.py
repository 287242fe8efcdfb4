"""The whole loop against a real local server of the chat-completions protocol."""

import pytest

from tests.requests.write.writing import count_replies, write_by
from tests.servers.chat import Answer, ChatServer
from tests.world import SHOP, drafted, good, sentence
from toolbank.system.errors import ToolbankError


def test_good_answers_make_the_wanted_number_of_queries_and_no_call_is_in_vain(
    tmp_path,
):
    with ChatServer(good) as server:
        made = write_by(server.url, tmp_path)
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
        made = write_by(server.url, tmp_path, tools_per_query=shares, offered=6)
        asked = len(server.calls)
        write_by(server.url, tmp_path, tools_per_query=shares, offered=6)
        assert len(server.calls) == asked
    # The model says two tools where one is asked for, and else three: a third of the queries.
    counts = made.value.counts
    numbers = counts["tools_per_query"]
    assert sum(n["asked"] for n in numbers.values()) == counts["attempts"]
    assert [numbers[n]["accepted"] for n in "123"] == [0, 0, 6]
    others = numbers["1"]["asked"] + numbers["2"]["asked"]
    assert counts["rejected"] == {"other-number-of-tools": others}
    assert "2, asked for 1" in made.value.info["examples"]["other-number-of-tools"]


def test_a_run_that_stopped_midway_goes_on_without_asking_again(tmp_path):
    def script(call):
        return good(call) if call.number < 15 else Answer.error(401, "key expired")

    with ChatServer(script) as server, pytest.raises(ToolbankError, match="401"):
        write_by(server.url, tmp_path)
    kept = count_replies(tmp_path)
    # Every reply that was given out is kept, those in flight at the stop included.
    assert kept == 15
    with ChatServer(good) as server:
        made = write_by(server.url, tmp_path)
    assert len(server.calls) == 40 - kept
    assert made.value.counts["accepted"] == 20


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Answer.text('{"draft": "Once', finish_reason="length"), "cut-off"),
        (Answer.text("", finish_reason="content_filter"), "content-filter"),
        (Answer.text(""), "empty"),
    ],
)
@pytest.mark.parametrize(
    "spoils_polish", [True, pytest.param(False, marks=pytest.mark.slow)]
)
def test_an_answer_that_is_not_whole_is_rejected_and_never_paid_for_again(
    tmp_path, answer, reason, spoils_polish
):
    def script(call):
        is_third = call.number % 5 == 3
        return answer if is_third and call.asks_polish == spoils_polish else good(call)

    with ChatServer(script) as server:
        made = write_by(server.url, tmp_path, queries=12, concurrency=1)
        asked = len(server.calls)
        again = write_by(server.url, tmp_path, queries=12, concurrency=1)
        assert len(server.calls) == asked
        larger = write_by(server.url, tmp_path, queries=1, max_tokens=9999)
        assert len(server.calls) > asked
    assert set(made.value.counts["rejected"]) == {reason}
    assert made.value.counts["failed"] == {}
    assert not made.lacks
    assert list(again.value.queries) == list(made.value.queries)
    assert again.value.counts == made.value.counts
    assert larger.value.queries


def test_half_a_character_in_what_an_endpoint_says_ends_no_run(tmp_path):
    refusal = b'{"error": {"message": "bad \\ud800 sign", "type": "x"}}'

    def script(call):
        return Answer(400, refusal) if call.number % 5 == 3 else good(call)

    with ChatServer(script) as server:
        made = write_by(server.url, tmp_path, queries=6, concurrency=1)
    assert made.value.counts["accepted"] == 6
    assert "bad ? sign" in str(made.value.info["examples"])
