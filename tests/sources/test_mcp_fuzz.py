import json
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolbank.sources.checks import check_tools
from toolbank.sources.mcp.client_config import read_client_config
from toolbank.sources.mcp.connection import Connection, Incoming
from toolbank.sources.mcp.read import read_tools
from toolbank.sources.mcp.settings import Server
from toolbank.sources.tool_list import ToolList
from toolbank.system.errors import InputError

KEYWORDS = """
type object string properties required $ref $defs #/$defs/a items anyOf name description
inputSchema outputSchema annotations title enum default a
"""
WORDS = st.sampled_from(KEYWORDS.split())
TEXT = WORDS | st.text(max_size=5)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=4)
    ),
    max_leaves=12,
)
ENTRIES = st.fixed_dictionaries(
    {"name": TEXT | JSON},
    optional={
        **dict.fromkeys(("title", "description", "outputSchema", "annotations"), JSON),
        "inputSchema": JSON
        | st.fixed_dictionaries(
            {"type": st.just("object") | JSON, "properties": JSON},
            optional={"required": JSON, "$defs": JSON},
        ),
    },
)


@settings(deadline=None)
@given(st.lists(ENTRIES | JSON, max_size=6))
def test_all_that_is_listed_is_a_sound_tool_or_counted(listed):
    found = ToolList()
    read_tools(listed, "server", "mcp:server", found)
    check_tools(found.tools.values(), "mcp:server")
    assert len(found.tools) + found.left_out.counts.total() == len(listed)


SECRETS = st.text('aZ09+/=&<"\\ é\n', min_size=4, max_size=20)


@settings(deadline=None)
@given(JSON, st.lists(SECRETS, min_size=1, max_size=3, unique=True), st.data())
def test_no_secret_is_left_in_what_is_listed(listed, secrets, data):
    tokens = {f"TOKEN_{number}": secret for number, secret in enumerate(secrets)}
    server = Server("a", ("server",), tokens)
    secret = data.draw(st.sampled_from(secrets))
    said = data.draw(st.sampled_from([secret, quote(secret), json.dumps(secret)]))
    hidden = server.hide_in([listed, {f"key {said}": [f"it is {said}"]}])
    assert not any(token in text for token in secrets for text in texts(hidden))
    assert server.hide_in([listed]) == [listed] or any(
        token in text for token in secrets for text in texts(listed)
    )


def texts(value):
    inner = [*value, *value.values()] if isinstance(value, dict) else value
    if isinstance(inner, list):
        return [text for one in inner for text in texts(one)]
    return [inner] if isinstance(inner, str) else []


SERVERS = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("command", "args", "env", "cwd", "headers", "disabled"), JSON),
        "type": JSON | st.sampled_from(["http", "sse", "stdio"]),
        "url": JSON
        | st.sampled_from(["http://[", "https://a@b", "http://é", "${A", "${HOME}"]),
    },
)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz") / "servers.json"


@settings(deadline=None)
@given(
    JSON | st.fixed_dictionaries({"mcpServers": st.dictionaries(TEXT, SERVERS | JSON)})
)
def test_any_file_is_read_or_refused(file, data):
    file.write_text(json.dumps(data))
    try:
        found = read_client_config(file, None)
    except InputError as error:
        assert str(file) in str(error)
    else:
        for server in found.servers:
            assert server.command or server.url
            assert str(server.grant_to_start) and server.hide("a") == "a"


def count_values(value):
    inner = value.values() if isinstance(value, dict) else value
    return 1 + (sum(map(count_values, inner)) if isinstance(value, list | dict) else 0)


ODD = st.text(st.sampled_from('\\",[{}]:\n\r\u2230a'), max_size=12)


@given(
    st.recursive(
        st.integers() | ODD,
        lambda inner: (
            st.lists(inner, max_size=4) | st.dictionaries(ODD, inner, max_size=4)
        ),
        max_leaves=30,
    ),
    st.integers(1, 20),
    st.booleans(),
    st.sampled_from(["", 'noise "[\n', ': "\\\r']),
)
def test_values_are_counted_however_they_arrive(value, size, ascii_only, before):
    said = (before + json.dumps(value, ensure_ascii=ascii_only)).encode()
    connection = Connection(most_values=100_000)
    incoming = Incoming(connection)
    for start in range(0, len(said), size):
        incoming.receive(said[start : start + size])
    # A value in a container has a comma or a bracket; before it are a bracket and a line.
    assert count_values(value) - 1 <= connection.values <= 2 * count_values(value) + 2
