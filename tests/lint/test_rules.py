"""What each rule of `toolbank lint` finds, and what it leaves alone."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbank.bank.records import HttpCall, McpCall, Tool
from toolbank.lint import RULES, CheckedTools
from toolbank.lint.orders import find_hidden, find_orders

ORDERS = Path(__file__).parents[1] / "corpus" / "lint"


def tool(name, text="", kind="function", source="functions:a.json", **properties):
    schema = {"type": "object", "properties": properties}
    return Tool(name=name, summary=text, kind=kind, source=source, parameters=schema)


def served(server, name, text="Do it.", **properties):
    call = McpCall(source=server, tool=name)
    one = tool(f"{server}/{name}", text, **properties)
    return one.model_copy(update={"call": call})


def posted(path, text):
    call = HttpCall(method="POST", path=f"/{path}")
    name = f"post_{path.replace('/', '_')}"
    return tool(name, text, "operation").model_copy(update={"call": call})


def found(*tools, encoder=None):
    """The findings as (rule, tool, parameter or other tools)."""
    catalogue = CheckedTools(tools, encoder)
    return [
        (rule.name, one.tool.name, *([one.parameter] if one.parameter else one.others))
        for rule in RULES
        for one in rule.check(catalogue)
    ]


SUN = tool("sun", "Tell when the sun rises at a place.")


USER = "Delete a user."
NAMES = [f"delete_user_{part}" for part in ("key", "mail", "name", "photo", "role")]
KEYS = [
    tool(name, f"Delete the {name[7:]} of somebody: delete user.") for name in NAMES
]


@pytest.mark.parametrize(
    ("tools", "expected"),
    [
        # The same name and text on two servers, in other words of the same sense.
        (
            [
                served("a-x", "list_rows", "Lists all rows in the open table."),
                served("a-y", "listRows", "List all the rows in an open table"),
            ],
            [("same-description", "a-x/list_rows", "a-y/listRows")],
        ),
        # One word decides.
        (
            [
                tool("both", "True where x AND y are."),
                tool("any", "True where x OR y is."),
            ],
            [],
        ),
        (
            [served("a", "get", "Get from Redis."), served("b", "get", "Get from S3.")],
            [],
        ),
        (
            [tool("start", "Handle the engine."), tool("halt", "Handle the  engine")],
            [("same-description", "start", "halt")],
        ),
        # Parameters of other names, and servers of other names, tell tools apart.
        (
            [
                served("a", "fork", "Copy it all.", x={}),
                served("b", "fork", "Copy it all.", y={}),
            ],
            [],
        ),
        (
            [
                served("a", "fork", "Copy it all.", x={"description": "what"}),
                served("a-b", "fork", "Copy it all.", y={"description": "what"}),
            ],
            [("same-description", "a/fork", "a-b/fork")],
        ),
        (
            [
                served("a", "add", "Comment on it."),
                served("b", "say", "Comment on it."),
            ],
            [],
        ),
        (
            [
                tool("a.org", "Drop it all.", source="python:a", org={}),
                tool("a.user", "Drop it all.", source="python:a", user={}),
            ],
            [],
        ),
        # The description of one verb is that of another.
        (
            [tool("create", "List users.", mail={}), tool("list", "List users.", n={})],
            [("same-description", "create", "list")],
        ),
        # One cause is one finding.
        (
            [
                served(server, name, f"Show the {name} of a commit.")
                for server in ("git", "git-2")
                for name in ("log", "diff")
            ],
            [("same-description", "git/log", "git-2/log", "git/diff", "git-2/diff")],
        ),
        (
            [
                tool(f"{part}_{name}", f"Read the {name} of a project.")
                for part in ("actions", "agents")
                for name in ("secrets", "variables")
            ],
            [
                (
                    "same-description",
                    "actions_secrets",
                    "agents_secrets",
                    "actions_variables",
                    "agents_variables",
                )
            ],
        ),
        # Symbols count.
        ([tool("less", "Return x < y."), tool("more", "Return x > y.")], []),
        # The other of a search are special cases; one alone, or a deprecated tool, is no fault.
        ([tool("remove", USER), *KEYS], [("unreachable", "remove", *NAMES)]),
        ([tool("remove", USER), *KEYS[1:]], []),
        (
            [
                tool(
                    "remove",
                    f"{USER} Deprecated.",
                ),
                *KEYS,
            ],
            [],
        ),
        # The words are only somewhere in long texts.
        (
            [
                tool("remove", USER),
                *(tool(n, f"Make {n}. {USER} Delete user.") for n in "bcdefg"),
            ],
            [],
        ),
        (
            [
                *(
                    tool(f"find_{name}", f"Find file. Open {name}.")
                    for name in "bcdefg"
                ),
                tool("locate_the_path_of_one", "Find file."),
            ],
            [
                (
                    "unreachable",
                    "locate_the_path_of_one",
                    *(f"find_{n}" for n in "bcdef"),
                )
            ],
        ),
        ([tool("a1", " "), SUN], [("no-description", "a1")]),
        ([tool("a1", "TODO"), SUN], [("no-description", "a1")]),
        ([tool("a1", "No description provided."), SUN], [("no-description", "a1")]),
        (
            [tool("deleteUserKeys", "Deletes the specified keys of a user."), SUN],
            [("no-description", "deleteUserKeys")],
        ),
        ([tool("list_user_keys", "List user keys."), SUN], []),
        ([tool("drop_key", "Drop a key.", id={"description": "its ID"}), SUN], []),
        (
            [served("a", "make", "Make."), served("a", "drop", "Drop.")],
            [("no-description", "a/make", "a/drop")],
        ),
        ([tool("delete_user", "Delete a user and all keys."), SUN], []),
        (
            [tool("post", "Send a letter.", data={"type": "object"}), SUN],
            [("vague-parameter", "post", "data")],
        ),
        ([tool("root", "The root of x.", x={}), SUN], []),
        # What the only parameter means is plain, but not what an object contains.
        ([tool("post", "Send a letter.", x={}), SUN], []),
        (
            [tool("dot", "Multiply a matrix.", a={}, b={}), SUN],
            [("vague-parameter", "dot", "a")],
        ),
        ([tool("post", "Send a letter.", data={"enum": ["b"]}), SUN], []),
        ([tool("post", "Send a letter.", data={"description": "its text"}), SUN], []),
        (
            [tool("post", "Send it.", data={"items": {"properties": {"to": {}}}}), SUN],
            [],
        ),
        ([tool("get.it", "Fetch a letter."), SUN], [("refused-name", "get.it")]),
        ([tool("a.b", "Fetch a letter.", source="python:a"), SUN], []),
        ([tool("n" * 64, "Fetch a letter."), SUN], []),
        ([tool("n" * 65, "Fetch a letter."), SUN], [("refused-name", "n" * 65)]),
        (
            [tool("\u0430dmin", "Fetch a letter."), SUN],
            [("refused-name", "\u0430dmin")],
        ),
        # Names that toolbank makes of long paths have one cause.
        (
            [posted(f"{'long/' * 15}{n}", f"Send {n} away.") for n in "bc"],
            [("refused-name", f"post_{'long_' * 15}b", f"post_{'long_' * 15}c")],
        ),
        # mcp__SERVER__TOOL in Claude Code.
        ([served("s" * 10, "t" * 47, "Fetch a letter.")], []),
        (
            [served("s" * 10, "t" * 48, "Fetch a letter.")],
            [("refused-name", f"{'s' * 10}/{'t' * 48}")],
        ),
    ],
)
def test_a_rule_finds_its_faults_and_no_others(tools, expected):
    assert found(*tools) == expected


@pytest.mark.parametrize(
    ("tools", "severity", "facts"),
    [
        (
            [tool(f"{c}.copy", "Make one of it.", "method") for c in "AB"],
            "note",
            "A.copy",
        ),
        (
            [
                tool("a.f", "Turn it.", source="python:a", x={"type": "null"}),
                tool("a.b.f", "Turn it.", source="python:a", x={}),
            ],
            "error",
            "the same names",
        ),
        (
            [
                tool("a.f", "Turn it.", source="python:a", x={}),
                tool("a.b.f", "Turn it.", source="python:a", z={}),
            ],
            "warning",
            "differ",
        ),
        (
            [served("s", f"{n}? {'n' * 8}", f"Do {n}.") for n in "ab"],
            "error",
            "spaces and `?`",
        ),
        (
            [tool("a." + "n" * 63, "Do it.", "method", "python:a")],
            "note",
            "65 characters",
        ),
    ],
)
def test_findings_say_how_bad_they_are_and_why(tools, severity, facts):
    [one] = [one for rule in RULES for one in rule.check(CheckedTools(tools))]
    assert one.severity == severity
    assert facts in one.reason


@pytest.mark.parametrize("name", ["orders", "no_orders"])
def test_orders_to_a_model_are_found_in_texts_and_parameters(name):
    for line in (ORDERS / f"{name}.txt").read_text("utf-8").splitlines():
        bare = tool(
            "t", "Add.", n={"items": {"properties": {"m": {"description": line}}}}
        )
        places = [
            [*find_orders(CheckedTools([one]))] for one in (tool("t", line), bare)
        ]
        assert all(places) == (name == "orders"), line
        assert not places[1] or places[1][0].parameter == "n.m"


@pytest.mark.parametrize(
    ("text", "severity"),
    [
        ("Read \U000e0049\U000e0067.", "error"),
        ("\u202eRead.", "error"),
        ("Read\u200bme.", "note"),
        (
            "Flags: \U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
            "",
        ),
        (
            "Family: \U0001f468\u200d\U0001f469. \u0646\u0627\u0645\u200c\u0647\u0627",
            "",
        ),
    ],
)
def test_invisible_characters_are_found_where_they_hide_something(text, severity):
    results = [*find_hidden(CheckedTools([tool("t", text)]))]
    assert [one.severity for one in results] == ([] if severity == "" else [severity])
    assert ("Ig" in results[0].reason) == ("\U000e0049" in text) if results else True


class Encoder:
    """Puts texts with "dawn" next to those with "sun"."""

    class config:  # noqa: N801
        label = "tiny"

    def encode_documents(self, texts):
        return np.array(
            [[1, 0] if "sun" in t else [0.6, 0.8] for t in texts], np.float32
        )

    def encode_queries(self, texts):
        return np.array([[1, 0] if "dawn" in t else [0, 1] for t in texts], np.float32)


def test_an_encoder_finds_what_words_do_not():
    tools = [
        *(tool(f"sun_{n}", f"Tell {n} when the day breaks.") for n in "bcdef"),
        tool("moon", "Tell the time of dawn."),
    ]
    assert found(*tools) == []
    assert ("unreachable", "moon") in [
        one[:2] for one in found(*tools, encoder=Encoder())
    ]


@given(st.lists(st.tuples(st.text(min_size=1), st.text()), unique_by=lambda x: x[0]))
def test_any_texts_are_checked(rows):
    tools = [tool(name, text, **{name: {"description": text}}) for name, text in rows]
    assert all(json.dumps(one) for one in found(*tools))
