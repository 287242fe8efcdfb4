import hashlib
import json

from hypothesis import given
from hypothesis import strategies as st

from toolbank.llm.chat import ChatRequest, Message
from toolbank.requests.write.checks import POLISHED_SCHEMA

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
    whole = [
        identity,
        attempt,
        "polish",
        [["system", "You edit."], ["user", content]],
        schema,
    ]
    text = json.dumps(whole, ensure_ascii=False, sort_keys=True)
    key = hashlib.sha256(text.encode()).hexdigest()[:32]
    assert request(content, attempt, schema).key(identity) == key
