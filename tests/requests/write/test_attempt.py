import asyncio

import pytest

from tests.requests.write.test_loop import run
from tests.servers.chat import Answer, ChatServer
from tests.world import good
from toolbank.llm.chat import ChatReply, ChatRequest, PolishTask
from toolbank.llm.journal import Journal


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
        made = run(server.url, tmp_path, queries=12, concurrency=1)
        asked = len(server.calls)
        again = run(server.url, tmp_path, queries=12, concurrency=1)
        assert len(server.calls) == asked
        larger = run(server.url, tmp_path, queries=1, max_tokens=9999)
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
        made = run(server.url, tmp_path, queries=6, concurrency=1)
    assert made.value.counts["accepted"] == 6
    assert "bad ? sign" in str(made.value.info["examples"])


def test_half_a_character_in_a_reply_is_replayed_as_it_was_read(tmp_path):
    reply = ChatReply("half \ud800", "model \udfff")
    asked = ChatRequest(0, "write", (), {}, PolishTask("", ()))
    with Journal(tmp_path / "journal.sqlite") as journal:
        asyncio.run(journal.put("k", "me", asked, reply))
        assert journal.get("k") == reply == ChatReply("half ?", "model ?")
