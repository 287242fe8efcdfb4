"""Schemas of parameters that are none keep all of them that is right."""

from hypothesis import given
from hypothesis import strategies as st

from toolbank.sources.checks import explain_parameters
from toolbank.sources.tool_list import repair_parameters

_SOUND = {
    "type": "number",
    "minimum": 0,
    "default": 3,
    "description": "How many.",
}


@given(
    st.sampled_from(["exclusiveMinimum", "enum", "pattern"]),
    st.sampled_from([True, {}]),
    st.integers(0, 3),
)
def test_a_wrong_keyword_is_dropped_alone_at_any_depth(key, wrong, depth):
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
    mended, what = repair_parameters(parameters)
    assert mended == {**parameters, "properties": {"n": expected}}
    assert what
    assert not explain_parameters(mended)
