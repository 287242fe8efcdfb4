"""Which tools are found to be twins: by their texts, as siblings, and by a file of the user's."""

import pytest

from toolbank.bank.records import Tool, find_first_twins
from toolbank.config.assets import find_asset
from toolbank.sources.collect import collect_tools, source_versions
from toolbank.sources.merge import mark_twins, read_named
from toolbank.sources.python.settings import PythonSource
from toolbank.system.errors import InputError


def twins(*tools, named=None):
    marked = mark_twins(tools, named or [])
    assert [tool.name for tool in marked] == [tool.name for tool in tools]
    return {tool.name: set(tool.twins) for tool in marked if tool.twins}


def member(name, summary="Detect gaps.", kind="method"):
    return Tool(name=name, kind=kind, summary=summary)


@pytest.mark.parametrize(
    "text",
    [
        "Frame.isnull is an alias for Frame.isna.",
        "This function is an alias of pd.Frame.isna.",
        *("Detect gaps. This is an alias method for isna here.", "alias of isna"),
        *("Alias for isna.", "Return alias for isna."),
        "Detects gaps; isnull() is an alias for isna() since 1.0.",
    ],
)
def test_a_text_that_calls_a_tool_the_alias_of_another_makes_them_twins(text):
    other = member("pd.Frame.isnull", text)
    expected = {"pd.Frame.isna": {other.name}, other.name: {"pd.Frame.isna"}}
    assert twins(member("pd.Frame.isna", "Find gaps."), other) == expected
    told = Tool(name=other.name, summary="Gaps.", notes=text)
    assert twins(member("pd.Frame.isna", "Find gaps."), told) == expected


def test_the_text_of_the_other_one_will_do():
    divide = Tool(name="np.divide", notes="The true(x, y) function is an alias for it.")
    told = Tool(name="np.divide", notes="true(x, y) is an alias for divide(x, y).")
    other = Tool(name="np.true", summary="Divide.")
    assert twins(divide, other) == {}
    assert twins(told, other) == {"np.divide": {"np.true"}, "np.true": {"np.divide"}}


@pytest.mark.parametrize(
    "text",
    [
        "Deletes the account alias for user.",
        "The option 'full' was made an alias of 'reduced'.",
        *("reduced is an alias for full.", "Same as full."),
        "is_it is an alias of nothing.",
    ],
)
def test_other_talk_of_aliases_makes_none(text):
    others = [Tool(name=f"np.{name}") for name in ("user", "full", "reduced")]
    assert twins(*others, Tool(name="np.is_it", description=text)) == {}


def test_siblings_of_the_same_summary_and_parameters_are_twins():
    schema = {"type": "object", "properties": {"axis": {"type": "integer"}}}
    other = member("pd.Index.isna").model_copy(update={"parameters": schema})
    found = twins(
        member("pd.Frame.isna"),
        member("pd.Series.isna"),
        other,
        member("pd.Panel.isna", "Find gaps."),
        member("pd.isna", kind="function"),
        *(member("pd.Day.month", ""), member("pd.Year.month", "")),
    )
    assert found == {
        "pd.Frame.isna": {"pd.Series.isna"},
        "pd.Series.isna": {"pd.Frame.isna"},
    }


def test_a_twins_twin_is_one():
    found = twins(
        member("pd.Frame.isna"),
        member("pd.Frame.isnull", "Alias of isna."),
        member("pd.Series.isna"),
        member("pd.Series.sum", "Add up."),
        Tool(name="pd.isna"),
        named=[["pd.isna", "pd.Series.isna", "pd.gone"], ["pd.Series.sum", "pd.lost"]],
    )
    four = {"pd.Frame.isna", "pd.Frame.isnull", "pd.Series.isna", "pd.isna"}
    assert found == {name: four - {name} for name in four}


def test_a_file_may_name_a_tool_by_another_name_of_it():
    tools = Tool(name="np.absolute", aliases=("np.abs",)), Tool(name="np.fabs")
    assert twins(*tools, named=[["np.abs", "np.fabs"]])["np.fabs"] == {"np.absolute"}


def test_the_first_twin_stands_for_all_in_whatever_order_they_are_named():
    tools = [
        Tool(name="a"),
        Tool(name="b", twins=("d",)),
        Tool(name="c"),
        Tool(name="d", twins=("gone",)),
        Tool(name="e", twins=("d", "c")),
    ]
    assert find_first_twins(tools) == (0, 1, 1, 1, 1)
    assert find_first_twins(tools[:3]) == (0, 1, 2)


def test_a_users_file_counts_and_reads_the_source_anew_when_it_changes(
    make_package, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    code = 'def a(): "Add."\ndef b(): "Sum up."\ndef c(): "Draw."'
    package = make_package({"__init__.py": code})
    source = PythonSource(package=package)
    without = source_versions([source])
    assert not any(tool.twins for tool in collect_tools([source], tmp_path).tools)
    file = tmp_path / "crawlers" / f"{package}.twins"
    file.parent.mkdir()
    file.write_text(f"# the same\n{package}.a  {package}.b # sums\n\n")
    assert source_versions([source]) != without
    found = {tool.name: tool.twins for tool in collect_tools([source], tmp_path).tools}
    assert found[f"{package}.a"] == (f"{package}.b",)
    assert found[f"{package}.c"] == ()
    file.write_text(f"{package}.a {package}.bb\n")
    (note,) = collect_tools([source], tmp_path).notes
    assert note.startswith(f"{file}: 1 name of no tool, such as {package}.bb")
    file.write_text(f"\n{package}.a\n")
    with pytest.raises(InputError, match=r"\.twins, line 2: .*a has no twin"):
        collect_tools([source], tmp_path)
    file.write_bytes(b"\xff")
    with pytest.raises(InputError, match=r"\.twins: not UTF-8"):
        collect_tools([source], tmp_path)


def test_the_files_that_come_along_name_each_pair_of_tools_once():
    for api in ("numpy", "pandas"):
        lines = read_named(find_asset("crawlers", f"{api}.twins"))
        assert all(name.startswith(f"{api}.") for names in lines for name in names)
        assert len({frozenset(names) for names in lines}) == len(lines)


def test_numpys_matmul_has_its_twin(tmp_path):
    tools = collect_tools([PythonSource(package="numpy")], tmp_path).tools
    found = {tool.name: tool.twins for tool in tools}
    assert found["numpy.matmul"] == ("numpy.linalg.matmul",)
    assert found["numpy.amax"] == ("numpy.max",)
    assert found["numpy.sin"] == ()
