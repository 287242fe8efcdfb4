"""What each rule of `toolbank lint` finds, and what it leaves alone."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbank.bank.records import McpCall, Tool
from toolbank.lint import RULES, CheckedTools
from toolbank.lint.orders import find_hidden_characters, find_orders

ORDERS = Path(__file__).parents[1] / "corpus" / "lint"


def tool(name, text="", kind="function", source="functions:a.json", **properties):
    schema = {"type": "object", "properties": properties}
    return Tool(name=name, summary=text, kind=kind, source=source, parameters=schema)


def served(server, name, text="Do it."):
    call = McpCall(source=server, tool=name)
    return tool(f"{server}/{name}", text).model_copy(update={"call": call})


def found(*tools, encoder=None):
    """The findings as (rule, tool, parameter or other tools)."""
    catalogue = CheckedTools(tools, encoder)
    return [
        (rule.name, one.tool.name, *([one.parameter] if one.parameter else one.others))
        for rule in RULES
        for one in rule.check(catalogue)
    ]


SUN = tool("sun", "Tell when the sun rises at a place.")


@pytest.mark.parametrize(
    ("tools", "expected"),
    [
        # The same name and text on two servers, in other words of the same sense.
        (
            [
                served("a", "list_rows", "Lists all rows in the open table."),
                served("b", "listRows", "List all the rows in an open table"),
            ],
            [("indistinguishable", "a/list_rows", "b/listRows")],
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
            [("copied-description", "start", "halt")],
        ),
        # A bare verb is no name of its own.
        (
            [
                tool("a.errors.get", "Read all of it.", source="python:a"),
                tool("a.rates.get", "Read all of it.", source="python:a"),
            ],
            [("copied-description", "a.errors.get", "a.rates.get")],
        ),
        # Symbols count.
        ([tool("less", "Return x < y."), tool("more", "Return x > y.")], []),
        (
            [
                tool("user_remove", "Delete a user with everything."),
                tool(
                    "delete_user_key", "Delete a user key with everything: delete user."
                ),
                SUN,
            ],
            [("shadowed", "user_remove", "delete_user_key")],
        ),
        # The words are only somewhere in a long text.
        (
            [
                tool("user_remove", "Delete a user with everything."),
                tool(
                    "key", "Make a key. Delete a user with everything. Delete a user."
                ),
                SUN,
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
            [("name-as-description", "deleteUserKeys")],
        ),
        ([tool("delete_user", "Delete a user and all keys."), SUN], []),
        (
            [tool("post", "Send a letter.", data={"type": "object"}), SUN],
            [("vague-parameter", "post", "data")],
        ),
        ([tool("root", "The root of x.", x={}), SUN], []),
        (
            [tool("post", "Send a letter.", a={}), SUN],
            [("vague-parameter", "post", "a")],
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


def test_methods_of_several_classes_are_only_noted():
    catalogue = CheckedTools([tool(f"{c}.copy", "Copy it.", "method") for c in "AB"])
    assert [one.severity for one in RULES[0].check(catalogue)] == ["note"]


def test_many_names_with_the_same_other_characters_are_one_finding():
    tools = [tool(f"do/{n}", f"Do step {n} of the plan.") for n in range(12)]
    assert [one[:2] for one in found(*tools)] == [("refused-name", "do/0")]


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
        ("Read \U000e0049\U000e0067.", None),
        ("\u202eRead.", None),
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
    results = [*find_hidden_characters(CheckedTools([tool("t", text)]))]
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
        tool("sun", "Tell when the day breaks."),
        tool("moon", "Tell the time of dawn."),
    ]
    assert found(*tools) == []
    assert ("shadowed", "moon", "sun") in found(*tools, encoder=Encoder())


@given(st.lists(st.tuples(st.text(min_size=1), st.text()), unique_by=lambda x: x[0]))
def test_any_texts_are_checked(rows):
    tools = [tool(name, text, **{name: {"description": text}}) for name, text in rows]
    assert all(json.dumps(one) for one in found(*tools))
