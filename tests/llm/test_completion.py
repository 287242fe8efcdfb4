import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbank.bank.records import Tool
from toolbank.llm.chat import (
    ChatReply,
    ChatRequest,
    Message,
    PolishTask,
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


def completion(**choice):
    return {"model": "served", "choices": [choice], "usage": {"prompt_tokens": 7}}


LONG = {"model": "x" * 20_000, "choices": [{"message": {"content": "a"}}]}
UNCOUNTED = {"choices": [{"message": {"content": "a"}}], "usage": {"prompt_tokens": -1}}
PARTS = [{"type": "thinking"}, {"text": "a"}, {"text": 1}]


def ended(content, reason="stop", **message):
    return completion(message={"content": content, **message}, finish_reason=reason)


def reply(text, finish="stop"):
    return ChatReply(text, "served", 7, 0, finish)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (ended("a"), reply("a")),
        (ended('{"q', "length"), reply('{"q', "cut-off")),
        (ended(None, "length"), reply("", "cut-off")),
        (ended("", "content_filter"), reply("", "content-filter")),
        (ended(None, refusal="I won't"), reply("I won't", "content-filter")),
        (ended(" "), reply(" ", "empty")),
        (ended(None), reply("", "empty")),
        (completion(message={"content": "a"}), reply("a")),
        (completion(message={"content": "a\ud800b"}), reply("a?b")),
        (completion(message={"content": PARTS}), reply("a")),
        (completion(message={"content": 5}), reply("", "empty")),
        (UNCOUNTED, ChatReply("a", "m")),
        (LONG, ChatReply("a", "x" * 200)),
    ],
)
def test_a_body_is_read_from_bytes_and_from_json(body, expected):
    assert read_completion(json.dumps(body).encode(), model="m") == expected
    assert read_completion(body, model="m") == expected


ANSWER = {"query": "What is {x}?"}
ANSWER_TEXT = json.dumps(ANSWER)
CALL = {"function": {"name": "polish", "arguments": ANSWER_TEXT}}


@pytest.mark.parametrize(
    "choice",
    [
        {"message": {"content": ANSWER}},
        {"message": {"content": None, "reasoning_content": ANSWER_TEXT}},
        {"message": {"content": " ", "reasoning": f"So it is {ANSWER_TEXT}"}},
        {
            "message": {"content": None, "tool_calls": [CALL]},
            "finish_reason": "tool_calls",
        },
        {"message": {"tool_calls": [{"function": {"arguments": ANSWER}}]}},
        {"message": {"content": "", "function_call": CALL["function"]}},
        {"text": ANSWER_TEXT, "finish_reason": "eos"},
    ],
)
def test_the_answer_is_read_wherever_a_provider_puts_it(choice):
    reply = read_completion(completion(**choice), model="m")
    assert find_answer(reply.text, ["query"]) == ANSWER
    assert reply.finish == "stop"


def test_reasoning_without_an_answer_is_no_answer():
    message = {"content": None, "reasoning_content": "Let me think about it."}
    reply = read_completion(completion(message=message), model="m")
    rejection = check_finish(reply)
    assert rejection.reason == "empty"
    assert "reasoning" in rejection.detail
    cut = {"content": None, "reasoning_content": ANSWER_TEXT}
    reply = read_completion(completion(message=cut, finish_reason="length"), model="m")
    assert (reply.text, reply.finish) == ("", "cut-off")


@pytest.mark.parametrize("finish", ["error", "abort", "insufficient_system_resource"])
def test_an_answer_that_the_server_broke_off_is_a_failed_try(finish):
    body = completion(message={"content": ANSWER_TEXT[:9]}, finish_reason=finish)
    with pytest.raises(CompletionError) as caught:
        read_completion(body, model="m")
    assert caught.value.reason == f"finish-{finish}"
    assert caught.value.prompt_tokens == 7


@pytest.mark.parametrize("finish", ["content_filter", "SAFETY", "sensitive", "refusal"])
def test_a_filter_has_many_names(finish):
    body = completion(message={"content": ANSWER_TEXT}, finish_reason=finish)
    assert read_completion(body, model="m").finish == "content-filter"


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        ("", "</think>"),
        ("<thinking>", "</thinking>"),
        ("<thought>", "</thought>"),
        ("<seed:think>", "</seed:think>"),
        ("<reasoning>", "</reasoning>"),
        ("[THINK]", "[/THINK]"),
        ("\u25c1think\u25b7", "\u25c1/think\u25b7"),
        ("<|START_THINKING|>", "<|END_THINKING|>"),
        (
            "<|channel|>analysis<|message|>",
            "<|end|><|start|>assistant<|channel|>final <|constrain|>json<|message|>",
        ),
        ("analysis", "assistantfinal"),
    ],
)
def test_thoughts_are_cut_in_the_marks_of_every_model(begin, end):
    text = f'{begin}Perhaps {{"query": "a first try"}}? No.{end}{ANSWER_TEXT}'
    assert find_answer(text, ["query"]) == ANSWER


@pytest.mark.parametrize(
    ("body", "reason", "said"),
    [
        (b"", "not-json-response", ""),
        (b"<html>", "web-page", "<html>"),
        (b'{"choices": [{}]}', "not-json-response", "choices"),
        (b'{"error": {"message": "overloaded"}}', "error-in-reply", "overloaded"),
        (b'{"error": "overloaded", "choices": []}', "error-in-reply", "overloaded"),
        (
            b'{"choices": [{"error": {"code": 502}, "message": {"content": ""}}]}',
            *("error-in-reply", "502"),
        ),
        (b'data: {"choices": []}', "stream-in-reply", "data"),
        (b": comment\n\ndata: {}", "stream-in-reply", "data"),
    ],
)
def test_what_is_no_completion_has_a_reason(body, reason, said):
    with pytest.raises(CompletionError) as caught:
        read_completion(body, model="m")
    assert caught.value.reason == reason
    assert said in caught.value.said


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


PLAIN = "Please book a table for two at eight and tell my friends."


def tokens(usage, content=PLAIN, finish="stop", **message):
    """Tokens in and out of a completion for a prompt of 300 characters, and if they are estimated."""
    message = {"content": content, **message}
    choice = {"message": message, "finish_reason": finish}
    body = {"choices": [choice], "usage": usage}
    reply = count_tokens(read_completion(body, model="m"), "p" * 300, 4096)
    return reply.prompt_tokens, reply.completion_tokens, reply.estimated


def usage(prompt=None, completion=None, total=None, reasoning=None):
    """What a server says of tokens; None is not said."""
    counts = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": total,
        "completion_tokens_details": reasoning and {"reasoning_tokens": reasoning},
    }
    return {name: count for name, count in counts.items() if count is not None}


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (usage(50, 9), (50, 9, False)),
        # Reasoning in the sum alone, or apart from the answer.
        (usage(50, 9, total=400), (50, 350, False)),
        (usage(50, 9, reasoning=700), (50, 709, False)),
        (usage(50, 709, total=759, reasoning=700), (50, 709, False)),
        # A sum that is too small says nothing.
        (usage(50, 9, total=9), (50, 9, False)),
        (usage(None, 9, total=59), (50, 9, False)),
        (usage(50, total=70), (50, 20, False)),
        (usage(total=140), (100, 40, True)),
        # A sum alone that is less than estimated is shared out; one that can't be is ignored.
        (usage(total=80), (67, 13, True)),
        (usage(10**15, 10**15, total=1), (100, 19, True)),
        (usage(50), (50, 19, True)),
        (usage(None, 9), (100, 9, True)),
        *(
            (nothing, (100, 19, True))
            for nothing in (
                None,
                {},
                [],
                "none",
                usage(0, 0, total=0),
                usage(-4, -1),
                usage("50", "9"),
                usage(True, 10**15),
                {"completion_tokens_details": "none", "total_tokens": 1e9},
            )
        ),
    ],
)
def test_tokens_that_are_not_reported_are_estimated(usage, expected):
    assert tokens(usage) == expected


def test_reasoning_that_is_shown_and_not_counted_is_estimated():
    thoughts = "First the table, then the friends. " * 90
    for name in ("reasoning_content", "reasoning"):
        prompt, completion, estimated = tokens(usage(50, 14), **{name: thoughts})
        assert (prompt, estimated) == (50, True)
        assert completion == pytest.approx(len(PLAIN + thoughts) / 3, rel=0.01)
    assert tokens(usage(50, 814), reasoning_content=thoughts) == (50, 814, False)
    assert tokens(None, content=None, reasoning=thoughts)[1] > 1000


def test_an_answer_that_was_cut_off_has_as_many_tokens_as_it_may():
    assert tokens(None, content="", finish="length") == (100, 4096, True)
    assert tokens(usage(7, 512), finish="length") == (7, 512, False)


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
