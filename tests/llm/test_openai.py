import asyncio

import pytest

from tests.engines import create_engine
from tests.servers.chat import Answer, ChatServer, closed_url
from toolbank.llm.chat import EngineError
from toolbank.requests.write.config import GenerateConfig
from toolbank.testing.engines import polish_request as request

KEY = "sk-test-5f1c9a"
GOOD = Answer.json({"query": "fine"})


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def config(url, **settings):
    base = {"engine": "openai", "base_url": url, "model": "asked-model"}
    return GenerateConfig(**{**base, **settings})


def answers(script, times=1, *, server=ChatServer, **settings):
    """The replies or errors of calls made one after the other, and the server's calls."""

    async def talk(url):
        engine = create_engine(config(url, **settings))
        got = []
        for attempt in range(times):
            try:
                async with asyncio.timeout(20):
                    got.append(await engine.answer(request(attempt)))
            except EngineError as error:
                assert "5f1c9a" not in str(error)
                got.append(error)
        await engine.close()
        return got

    with server(script) as running:
        return asyncio.run(talk(running.url)), running.calls


def failure(script, **settings):
    (error,), _ = answers(script, **settings)
    assert isinstance(error, EngineError), error
    return error


def test_a_reply_comes_back_with_the_servers_model_and_the_tokens_it_cost():
    (reply,), (call,) = answers(lambda call: GOOD)
    assert reply.text == '{"query": "fine"}'
    assert reply.model == "served-model"
    assert (reply.prompt_tokens, reply.completion_tokens) == (7, 3)
    assert call.path == "/v1/chat/completions"
    assert call.headers["authorization"] == f"Bearer {KEY}"
    assert call.body["model"] == "asked-model"


@pytest.mark.parametrize(
    ("answer", "reason", "retryable", "fatal"),
    [
        (Answer.error(429), "http-429", True, False),
        (Answer.error(500), "http-500", True, False),
        (Answer.error(503), "http-503", True, False),
        (Answer.html("<h1>Bad gateway</h1>", 502), "http-502", True, False),
        (Answer.error(400, "context too long"), "bad-request", False, False),
        (Answer.error(401, f"Incorrect key: {KEY}"), "refused-key", False, True),
        (Answer.error(403), "http-403", False, False),
        (Answer.error(404, "asked-model"), "no-such-model", False, True),
        (Answer.error(403, "Input was flagged"), "content-filter", False, False),
        (Answer.error(400, "data_inspection_failed"), "content-filter", False, False),
        (Answer.error(424), "http-424", True, False),
        (Answer.error(498), "http-498", True, False),
        (Answer.error(529), "http-529", True, False),
        (Answer.error(402), "no-credit", False, True),
        (Answer.error(418, f"teapot {KEY}"), "http-418", False, False),
    ],
)
def test_every_failure_has_a_name_that_can_be_counted(answer, reason, retryable, fatal):
    error = failure(lambda call: answer)
    assert error.reason == reason
    assert error.retryable == retryable
    assert error.fatal == fatal


@pytest.mark.parametrize("status", [403, 404])
def test_one_refused_prompt_ends_no_run_and_many_in_a_row_do(status):
    def script(call):
        return GOOD if call.number == 0 else Answer.error(status, "not this")

    (reply, *errors), _ = answers(script, times=20)
    assert reply.text == '{"query": "fine"}'
    assert [error.fatal for error in errors] == [False] * 16 + [True] * 3
    assert {error.reason for error in errors[:16]} == {f"http-{status}"}


def test_a_refused_first_prompt_ends_no_run_and_three_do():
    errors, _ = answers(lambda call: Answer.error(403, "not this"), times=3)
    assert [error.fatal for error in errors] == [False, False, True]
    assert errors[-1].reason == "refused-key"


def test_a_router_that_has_no_provider_for_a_form_gets_the_next():
    def script(call):
        if "response_format" in call.body:
            said = "No endpoints found that can handle the requested parameters."
            return Answer.error(404, said)
        return GOOD

    replies, calls = answers(script, times=2)
    assert [reply.text for reply in replies] == ['{"query": "fine"}'] * 2
    assert len(calls) == 4


def test_nobody_listening_is_a_connection_failure_that_may_pass():
    error = failure(lambda _: GOOD, base_url=closed_url())
    assert (error.reason, error.retryable, error.fatal) == ("connection", True, False)
    assert "(connection refused). Is the server running" in str(error)


REFUSALS = [
    *((status, "response_format is unsupported") for status in (400, 422, 501)),
    (400, "Unknown parameter: 'response_format.json_schema.strict'."),
    (400, "not allowed ('additionalProperties' was unexpected)"),
    (400, "('body', 'response_format', 'type'): Input should be 'json_object'"),
    (400, "failed to compile grammar"),
]


@pytest.mark.parametrize(("status", "message"), REFUSALS)
@pytest.mark.parametrize("refused", [("json_schema",), ("json_schema", "json_object")])
def test_a_refused_form_is_followed_by_the_next(monkeypatch, status, message, refused):
    monkeypatch.delenv("OPENAI_API_KEY")

    def script(call):
        return Answer.error(status, message) if call.format in refused else GOOD

    got, calls = answers(script, times=3)
    assert [reply.text for reply in got] == ['{"query": "fine"}'] * 3
    assert len(calls) == 3 + len(refused)


def test_a_form_is_given_up_for_a_servers_error_only_where_the_same_call_has_it_again():
    def script(call):
        if call.format == "json_schema":
            return Answer.error(500, "the structured output backend broke")
        return GOOD

    async def talk(url):
        engine = create_engine(config(url))
        for number in (0, 1, 2):
            with pytest.raises(EngineError) as caught:
                await engine.answer(request(number))
            assert (caught.value.reason, caught.value.retryable) == ("http-500", True)
        replies = [await engine.answer(request(number)) for number in (1, 0, 2)]
        await engine.close()
        return replies

    with ChatServer(script) as server:
        replies = asyncio.run(talk(server.url))
    assert {reply.text for reply in replies} == {'{"query": "fine"}'}
    forms = [call.format for call in server.calls]
    assert forms == ["json_schema"] * 4 + ["json_object"] * 3


@pytest.mark.parametrize(
    ("refuses", "message", "times", "forms"),
    [
        # A server that is starting up.
        (lambda call: call.number < 3, "structured output backend restarting", 6, 1),
        # A form that was answered before is not the reason.
        (lambda call: call.number == 1, "it does not match the schema", 3, 1),
        # A server that refuses every form.
        (lambda call: True, "response_format is bad", 1, 3),
    ],
)
def test_a_form_is_only_given_up_where_it_is_the_reason(refuses, message, times, forms):
    status = 500 if "restarting" in message else 400

    def script(call):
        return Answer.error(status, message) if refuses(call) else GOOD

    _, calls = answers(script, times=times)
    assert len(calls) == times * forms
    assert len({call.format for call in calls}) == forms


@pytest.mark.parametrize(
    ("told", "advice"),
    [
        ("'temperature' does not support 0.9 with this model", "`temperature: null`"),
        ("max_tokens is too large: 4096", "smaller `max_tokens`"),
        ("extra field not permitted: top_k", "`top_k` in `parameters`"),
        ("this prompt is too long", None),
    ],
)
def test_a_refused_setting_is_named_with_what_to_do(told, advice):
    error = failure(lambda call: Answer.error(400, told), parameters={"top_k": 5})
    assert told in str(error)
    if advice:
        assert advice in str(error)
    else:
        assert str(error).endswith(f"{told}.")


def test_a_rate_limit_that_is_used_up_asks_everybody_to_wait():
    name = "x-ratelimit-{}-requests".format
    full = Answer(body=GOOD.body, headers={name("remaining"): "0", name("reset"): "2s"})
    (reply,), _ = answers(lambda call: full)
    assert reply.pause == 2
    refused = Answer.error(429, **{name("reset"): "3s"})
    assert failure(lambda call: refused).retry_after == 3


def test_models_that_want_max_completion_tokens_get_it():
    def script(call):
        if "max_tokens" in call.body:
            return Answer.error(400, "use 'max_completion_tokens' instead")
        return GOOD

    got, calls = answers(script, times=2, max_tokens=99)
    assert [reply.text for reply in got] == ['{"query": "fine"}'] * 2
    assert calls[-1].body["max_completion_tokens"] == 99
    assert len(calls) == 3
