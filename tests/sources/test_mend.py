"""Schemas of parameters that are none keep all of them that is right."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from toolbank.sources.checks import SchemaCheck
from toolbank.sources.tool_list import repair_parameters

_SOUND: dict[str, Any] = {
    "type": "number",
    "minimum": 0,
    "default": 3,
    "description": "How many.",
}


@given(
    st.sampled_from(["exclusiveMinimum", "enum", "pattern"]),
    st.sampled_from([None, {}]),
    st.integers(0, 3),
)
def test_a_wrong_keyword_is_dropped_alone_at_any_depth(
    key: str, wrong: Any, depth: int
) -> None:
    given_, expected = {**_SOUND, key: wrong}, _SOUND
    for level in range(depth):
        if level % 2:
            given_, expected = (
                {"type": "array", "items": schema} for schema in (given_, expected)
            )
        else:
            given_, expected = (
                {"type": "object", "properties": {"a": schema}}
                for schema in (given_, expected)
            )
    parameters = {"type": "object", "properties": {"n": given_}, "required": ["n"]}
    check = SchemaCheck()
    mended, what = repair_parameters(parameters, check)
    assert mended == {**parameters, "properties": {"n": expected}}
    assert what
    assert not check.explain(mended)
