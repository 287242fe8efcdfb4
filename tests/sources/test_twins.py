import json

import pytest

from tests.corpus_files import check_expected, corpus_files
from toolbank.bank.records import Tool, find_first_twins
from toolbank.config.assets import find_asset
from toolbank.sources.collect import collect_tools, source_versions
from toolbank.sources.merge import mark_twins, read_named
from toolbank.sources.python.settings import PythonSource
from toolbank.system.errors import InputError


@pytest.mark.parametrize("file", corpus_files("twins"), ids=lambda file: file.stem)
def test_twins_are_found_as_expected(file, update_corpus):
    found = []
    for case in json.loads(file.read_text()):
        tools = [Tool.model_validate(tool) for tool in case["tools"]]
        marked = mark_twins(tools, case.get("named", []))
        assert [tool.name for tool in marked] == [tool.name for tool in tools]
        found.append({tool.name: sorted(tool.twins) for tool in marked if tool.twins})
    expected = file.with_name(f"{file.name}.tools.json")
    check_expected(expected, found, update=update_corpus)


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


def test_a_users_file_of_twins_is_read_anew(make_package, tmp_path, monkeypatch):
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


def test_the_files_that_come_along_name_twins_once(tmp_path):
    for api in ("numpy", "pandas"):
        lines = read_named(find_asset("crawlers", f"{api}.twins"))
        assert all(name.startswith(f"{api}.") for names in lines for name in names)
        assert len({frozenset(names) for names in lines}) == len(lines)
    tools = collect_tools([PythonSource(package="numpy")], tmp_path).tools
    found = {tool.name: tool.twins for tool in tools}
    assert found["numpy.matmul"] == ("numpy.linalg.matmul",)
    assert found["numpy.amax"] == ("numpy.max",)
    assert found["numpy.sin"] == ()
