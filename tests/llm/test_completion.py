import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.corpus_files import CORPUS, check_expected
from toolbank.bank.records import Tool
from toolbank.llm.chat import (
    ChatReply,
    ChatRequest,
    Message,
    PolishTask,
    Rejection,
    check_finish,
    count_tokens,
    estimate_tokens,
    find_answer,
)
from toolbank.llm.engines.openai.completion import (
    CompletionError,
    check_settings,
    make_body,
    make_identity,
    read_completion,
)
from toolbank.requests.write.checks import POLISHED_SCHEMA
from toolbank.requests.write.config import GenerateConfig

SCHEMA = {"type": "object", "properties": {"query": {"type": "string"}}}
REQUEST = ChatRequest(
    0,
    "polish",
    (Message("system", "You write."), Message("user", "Polish.")),
    SCHEMA,
    PolishTask("draft", (Tool(name="a.b"),)),
)


def config(**settings):
    return GenerateConfig(engine="openai", model="m", **settings)


def test_any_sampling_parameter_is_sent_as_it_is():
    parameters = {
        "top_p": 0.95,
        "seed": 7,
        "stop": ["\n\n"],
        "reasoning_effort": "low",
        "top_k": 20,
        "chat_template_kwargs": {"enable_thinking": False},
    }
    settings = config(parameters=parameters)
    check_settings(settings)
    assert make_body(settings, REQUEST) == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "You write."},
            {"role": "user", "content": "Polish."},
        ],
        "max_tokens": 4096,
        "temperature": 0.9,
        **parameters,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "polish", "strict": True, "schema": SCHEMA},
        },
    }
    assert "temperature" not in make_body(config(temperature=None), REQUEST)


def test_parameters_are_part_of_the_identity_in_any_order():
    one = config(parameters={"top_p": 0.9, "top_k": {"a": 1, "b": 2}})
    other = config(parameters={"top_k": {"b": 2, "a": 1}, "top_p": 0.9})
    assert make_identity(one) == make_identity(other) != make_identity(config())


BODIES = CORPUS / "completions" / "bodies.json"


def describe(body):
    """What is read of a body, with the tokens for a prompt of 300 characters."""
    try:
        reply = read_completion(body, model="m")
    except CompletionError as error:
        return {"error": error.reason, "said": error.said, "in": error.prompt_tokens}
    counted = count_tokens(reply, "p" * 300, 4096)
    answer, rejection = find_answer(reply.text, ["query"]), check_finish(reply)
    return {
        "text": reply.text,
        "model": reply.model,
        "finish": reply.finish,
        "answer": answer.reason if isinstance(answer, Rejection) else answer,
        "rejected": rejection and rejection.reason,
        "tokens": [counted.prompt_tokens, counted.completion_tokens],
        "estimated": counted.estimated,
    }


def test_bodies_are_read_as_expected_from_bytes_and_from_json(update_corpus):
    found = {}
    for name, body in json.loads(BODIES.read_text()).items():
        is_text = isinstance(body, str)
        found[name] = describe(body.encode() if is_text else json.dumps(body).encode())
        assert is_text or describe(body) == found[name], name
    expected = BODIES.with_name(f"{BODIES.name}.tools.json")
    check_expected(expected, found, update=update_corpus)


def test_a_long_name_of_a_model_is_cut():
    body = {"model": "x" * 20_000, "choices": [{"message": {"content": "a"}}]}
    assert read_completion(body, model="m") == ChatReply("a", "x" * 200)


def test_reasoning_without_an_answer_is_explained():
    message = {"content": None, "reasoning_content": "Let me think about it."}
    reply = read_completion({"choices": [{"message": message}]}, model="m")
    assert "reasoning" in check_finish(reply).detail


NAMES = (
    *("choices", "message", "content", "refusal", "error", "usage", "model", "text"),
    *("finish_reason", "prompt_tokens", "status_code", "body", "code"),
    *("tool_calls", "function", "arguments", "reasoning", "function_call"),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4)
    ),
    max_leaves=12,
)


def told(body):
    try:
        reply = read_completion(body, model="m")
    except CompletionError as error:
        assert error.reason
        error.said.encode()
    else:
        reply.text.encode()
        reply.model.encode()
        assert 0 <= reply.prompt_tokens < 2**31


@given(st.binary())
def test_any_bytes_are_a_reply_or_a_named_error(body):
    told(body)


@given(JSON, JSON)
def test_any_json_is_a_reply_or_a_named_error(body, message):
    told(body)
    told(json.dumps(body).encode())
    told({"choices": [{"message": message, "error": body}]})
    told({"choices": [{"message": {"content": message, "refusal": body}}]})


def test_deeply_nested_json_is_a_named_error():
    for depth in (200, 900, 5000, 100_000):
        told(b'{"error": ' + b"[" * depth + b"]" * depth + b"}")
        told(b'{"choices": [{"message": ' + b'{"a":' * depth + b"1" + b"}" * depth)


@given(st.text(), st.text(), st.integers(0, 10**6), st.integers(0, 10**6))
def test_what_is_reported_is_never_lowered(prompt, text, tokens_in, tokens_out):
    reply = ChatReply(text, "m", tokens_in, tokens_out)
    counted = count_tokens(reply, prompt, 100)
    assert counted.prompt_tokens >= tokens_in
    assert counted.completion_tokens >= tokens_out
    assert counted.estimated or counted == reply


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("plain words", 4),
        ("按月份统计销售额", 8),
        ("売上を集計して", 7),
        ("sales 销售", 4),
    ],
)
def test_an_estimate_is_rather_too_high_than_too_low(text, tokens):
    assert estimate_tokens(text) == tokens


SIGNS = st.sampled_from([*'ab "\\\n\t\x00\x7fé☃😀/', "\\u00e9"])
TEXTS = st.lists(SIGNS, max_size=20).map("".join)


def request(content="Say it.", attempt=7, schema=POLISHED_SCHEMA):
    messages = (Message("system", "You edit."), Message("user", content))
    return ChatRequest(attempt, "polish", messages, schema)


def test_a_request_keeps_its_key():
    """With another key, replies that are paid for would be asked for again."""
    assert request().key("m") == "b8a736a1434adee3f40ae168d6ffbd8a"
    assert request("Größe?").key("m") == "9744eb762440ad7f790667ef78f3443c"


@given(TEXTS, st.integers(0, 10**6), TEXTS)
def test_the_key_is_the_hash_of_the_request_as_json(content, attempt, identity):
    schema = {"type": "object", "properties": {identity: {"type": "string"}}}
    messages = [["system", "You edit."], ["user", content]]
    whole = [identity, attempt, "polish", messages, schema]
    text = json.dumps(whole, ensure_ascii=False, sort_keys=True)
    key = hashlib.sha256(text.encode()).hexdigest()[:32]
    assert request(content, attempt, schema).key(identity) == key
