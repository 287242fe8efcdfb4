import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from toolbank.llm.chat import MAX_REPLY_CHARACTERS, ChatReply, Rejection, check_finish
from toolbank.requests.write.checks import (
    DRAFT_SCHEMA,
    POLISHED_SCHEMA,
    Draft,
    read_draft,
    read_polished,
)

DRAFT = {
    "declined": False,
    "reason": "",
    "tools": ["sorter", "adder"],
    "explanation": "The sorted sales are added up.",
    "draft": "Sort the sales of the shop, then add them up.",
}
READ = Draft(DRAFT["draft"], ("sorter", "adder"), DRAFT["explanation"])

words = st.text(st.characters(codec="utf-8", exclude_characters="{}"), max_size=80)
texts = words.map(lambda text: " ".join(text.split())).filter(bool)


@pytest.mark.parametrize(
    "reply",
    [
        "```json\n%s\n```",
        "Sure! Here is the request you asked for:\n\n%s\n\nLet me know if it helps.",
        "<think>Perhaps {'tools': ...}? No: {\"draft\": 1}.</think>\n%s",
        'So I choose {"draft": "something else"}.\n</think>\n\n%s',
        "The set {sorter, adder} works, and so does {}. %s",
        'As asked, with {"note": 1} as an aside: %s',
        "%s\n%s",
        "%s",
    ],
)
def test_what_stands_around_the_object_does_not_matter(reply):
    written = json.dumps(DRAFT, indent=2).replace("shop, then", "shop,\n  then")
    assert read_draft(reply.replace("%s", written)) == READ


def test_a_key_that_nobody_asked_for_is_ignored():
    own = {"confidence": 0.9, "thoughts": ["They belong together."]}
    assert read_draft(json.dumps({**own, **DRAFT})) == READ
    polished = {"already_good": False, "reason": "", "query": "Sort them."}
    assert read_polished(json.dumps({**polished, **own}), "Sort.") == "Sort them."


def test_a_decline_is_told_apart():
    declined = read_draft('{"declined": true, "reason": "Nothing belongs together."}')
    assert declined == Draft("", (), "", True, "Nothing belongs together.")


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("", "not-json"),
        ("I can't do that.", "not-json"),
        (json.dumps(DRAFT)[:-3], "not-json"),
        ("[1, 2]", "not-json"),
        ('{"request": "Sort the sales."}', "wrong-schema"),
        (json.dumps({**DRAFT, "tools": "sorter"}), "wrong-schema"),
        (json.dumps({**DRAFT, "tools": [1, 2]}), "wrong-schema"),
        (json.dumps({**DRAFT, "declined": "no"}), "wrong-schema"),
        ('{"draft": "Sort and add.", "tools": ["sorter"]}', "wrong-schema"),
        (json.dumps({**DRAFT, "draft": "  \n "}), "empty-draft"),
        (json.dumps(DRAFT)[:-1] + ', "draft": "Something else."}', "repeated-key"),
        (f'{json.dumps(DRAFT)} {{"draft": "Another one."}}', "several-objects"),
        (json.dumps(DRAFT) + " " * MAX_REPLY_CHARACTERS, "reply-too-long"),
        ('{"draft": ' + "9" * 5000 + "}", "not-json"),
        ('{"draft": ' * 20_000, "reply-too-long"),
        ('{"draft": ' * 5_000, "not-json"),
    ],
)
def test_every_other_reply_is_rejected_with_a_reason(reply, reason):
    rejected = read_draft(reply)
    assert isinstance(rejected, Rejection)
    assert rejected.reason == reason


@pytest.mark.parametrize(
    ("reply", "read"),
    [
        ('{"already_good": false, "reason": "", "query": "What?"}', "What?"),
        ('{"already_good": true, "reason": "It is.", "query": "Other."}', "The draft."),
        ('{"query": ""}', Rejection("empty-query")),
    ],
)
def test_a_polished_query_is_read_or_the_draft_kept(reply, read):
    assert read_polished(reply, "The draft.") == read


@given(st.text() | st.text('{}[]",:\\ntrue1e \ud800'))
def test_no_text_raises(text):
    assert isinstance(read_draft(text), Draft | Rejection)
    assert isinstance(read_polished(text, "draft"), str | Rejection)


# Of the right type often enough that many answers are right.
values = st.one_of(
    st.booleans(),
    texts,
    st.lists(texts | st.integers(), max_size=2),
    st.none(),
    st.integers(0, 1) | st.floats(),
    st.dictionaries(texts, st.none(), max_size=1),
)


def check_schema(read, schema, answer):
    """Check that an answer is rejected exactly if the schema refuses it."""
    errors = list(Draft202012Validator(schema).iter_errors(answer))
    wrong = isinstance(read, Rejection) and read.reason == "wrong-schema"
    assert wrong == bool(errors)
    assert not errors or errors[0].message[:100] in read.detail


@given(
    st.fixed_dictionaries(
        {"tools": values, "explanation": values, "draft": values},
        optional={"declined": values, "reason": values, "more": values},
    ),
    st.fixed_dictionaries(
        {"query": values},
        optional={"already_good": st.just(False) | values, "reason": values},
    ),
)
def test_answers_are_of_the_wrong_schema_if_the_schema_says_so(draft, polished):
    full = {"declined": False, "reason": "", **draft}
    check_schema(read_draft(json.dumps(draft)), DRAFT_SCHEMA, full)
    full = {"already_good": False, "reason": "", **polished}
    if full["already_good"] is True:
        full["query"] = "The draft."
    read = read_polished(json.dumps(polished), "The draft.")
    check_schema(read, POLISHED_SCHEMA, full)


@given(words, words, texts, st.lists(texts, max_size=4), texts, st.booleans())
def test_any_prose_may_be_around_it(before, after, draft, tools, explanation, escaped):
    answer = {**DRAFT, "draft": draft, "tools": tools, "explanation": explanation}
    reply = before + json.dumps(answer, ensure_ascii=escaped) + after
    assert read_draft(reply) == Draft(draft, tuple(tools), explanation)


@pytest.mark.parametrize("schema", [DRAFT_SCHEMA, POLISHED_SCHEMA])
def test_schemas_are_what_strict_servers_take(schema):
    assert schema["required"] == list(schema["properties"])
    assert schema["additionalProperties"] is False


@pytest.mark.parametrize(
    ("finish", "told"),
    [("cut-off", "max_tokens"), ("content-filter", "refused"), ("too-large", "4 MB")],
)
def test_a_reply_that_is_no_whole_answer_is_rejected_with_what_is_known(finish, told):
    rejection = check_finish(ChatReply("x", "m", finish=finish))
    assert rejection.reason == finish
    assert told in rejection.detail
    assert check_finish(ChatReply("x", "m")) is None
