"""Whatever a server lists and whatever a file of servers says, it is read or refused in words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolbank.sources.listed import Listed
from toolbank.sources.mcp.client_config import read_client_config
from toolbank.sources.mcp.tools import read_tools
from toolbank.sources.tool_check import check_tools
from toolbank.system.errors import InputError

WORDS = st.sampled_from(
    [
        "type",
        "object",
        "string",
        "properties",
        "required",
        "$ref",
        "$defs",
        "#/$defs/a",
        "items",
        "anyOf",
        "name",
        "description",
        "inputSchema",
        "outputSchema",
        "annotations",
        "title",
        "enum",
        "default",
        "a",
    ]
)
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
        "title": JSON,
        "description": JSON,
        "inputSchema": JSON
        | st.fixed_dictionaries(
            {"type": st.just("object") | JSON, "properties": JSON},
            optional={"required": JSON, "$defs": JSON},
        ),
        "outputSchema": JSON,
        "annotations": JSON,
    },
)


@settings(deadline=None)
@given(st.lists(ENTRIES | JSON, max_size=6))
def test_all_that_is_listed_is_a_sound_tool_or_counted(listed):
    found = Listed()
    read_tools(listed, "server", "mcp:server", found)
    check_tools(found.tools.values(), "mcp:server")
    assert len(found.tools) + found.left_out.counts.total() == len(listed)


SERVERS = st.fixed_dictionaries(
    {},
    optional={
        "command": JSON,
        "args": JSON,
        "env": JSON,
        "cwd": JSON,
        "type": JSON | st.sampled_from(["http", "sse", "stdio"]),
        "url": JSON
        | st.sampled_from(["http://[", "https://a@b", "http://é", "${A", "${HOME}"]),
        "headers": JSON,
        "disabled": JSON,
    },
)


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
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
            assert server.masked_line is not None and server.hide("a") == "a"
