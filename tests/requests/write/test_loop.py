"""The whole loop against a real local server of the chat-completions protocol."""

import pytest

from tests.requests.write.writing import write_by
from tests.servers.chat import Answer, ChatServer
from tests.world import SHOP, good


def test_good_answers_make_the_wanted_queries_and_no_call_is_in_vain(tmp_path):
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
def test_half_an_answer_is_not_paid_for_again(tmp_path, answer, reason, spoils_polish):
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
