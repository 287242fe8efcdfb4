import re
import sys
from collections.abc import Callable
from types import FrameType

from hypothesis import given
from hypothesis import strategies as st

from toolbank.bank.records import Tool
from toolbank.sources import prompt_names
from toolbank.sources.prompt_names import with_prompt_names


def name_of(name: str, summary: str, **fields: object) -> str:
    tool = Tool.model_validate(
        {"name": name, "kind": "function", "summary": summary, **fields}
    )
    return with_prompt_names([tool])[0].prompt_name


def test_it_says_what_the_tool_does() -> None:
    summary = "Compute the weighted average along the specified axis."
    assert name_of("numpy.mean", summary) == "weighted_average_along_axis"


def test_it_leaves_out_the_tools_own_name() -> None:
    summary = "Compute the weighted average along the specified axis."
    assert name_of("numpy.average", summary) == "weighted_along_axis"
    assert name_of("pkg.axis_mean", summary) == "weighted_average_along"
    summary = "Trigonometric inverse cosine, called acos elsewhere."
    aliased = name_of("numpy.arccos", summary, aliases=["numpy.acos"])
    assert "acos" not in aliased


def test_it_leaves_out_identifiers_and_code() -> None:
    summary = "Join `df.index` and other_frame by fast_join(x, y) quickly."
    assert name_of("pkg.f", summary) == "join_quickly"


def test_tools_that_say_the_same_get_different_names() -> None:
    same = [
        Tool(name=f"pkg.f{i}", kind="function", summary="Sort the rows quickly.")
        for i in range(4)
    ]
    other = Tool(
        name="pkg.g",
        kind="function",
        summary="Sort the rows quickly.",
        description="Falling order comes first.",
    )
    names = [tool.prompt_name for tool in with_prompt_names([*same, other])]
    assert names[0] == "sort_rows_quickly"
    assert names[-1] == "sort_rows_quickly_falling"
    assert len(set(names)) == 5


def test_numbers_take_no_more_work_for_each_tool_that_says_the_same() -> None:
    """Lines of code that run: the same for the thousandth tool as for the hundredth."""

    def work(tools: int) -> int:
        lines = 0

        def count(frame: FrameType, event: str, _: object) -> Callable[..., object]:
            nonlocal lines
            lines += (
                event == "line" and frame.f_code.co_filename == prompt_names.__file__
            )
            return count

        same = [
            Tool(name=f"pkg.f{i}", kind="function", summary="Sort the rows quickly.")
            for i in range(tools)
        ]
        before = sys.gettrace()
        sys.settrace(count)
        try:
            names = [tool.prompt_name for tool in with_prompt_names(same)]
        finally:
            sys.settrace(before)
        stem = "sort_rows_quickly"
        assert names == [stem, *(f"{stem}_{n}" for n in range(2, tools + 1))]
        return lines

    assert work(400) < 4.5 * work(100)


def test_a_tool_without_words_still_has_a_name() -> None:
    assert name_of("pkg.f", "") == "function"


TOOLS = st.lists(
    st.builds(
        Tool,
        name=st.text(min_size=1, max_size=12),
        kind=st.sampled_from(["function", "class", "property"]),
        summary=st.text(max_size=40)
        | st.sampled_from(["Sort the rows.", "Sort the rows quickly.", "Sort."]),
    ),
    max_size=12,
)


@given(TOOLS)
def test_names_are_unique_and_plain(tools: list[Tool]) -> None:
    named = with_prompt_names(tools)
    names = [tool.prompt_name for tool in named]
    assert len(set(names)) == len(tools)
    assert all(re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name) for name in names)
    assert with_prompt_names(tools) == named
