import ast
import json
import textwrap
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.corpus_files import CORPUS, check_expected, corpus_files
from tests.sources.cases import read_cases
from toolbank.sources import SOURCES
from toolbank.sources.python.exports import read_exports
from toolbank.sources.python.settings import PythonSource
from toolbank.system.errors import InputError


def read(folder, **more):
    kind = SOURCES.find("python", "")
    return kind.read(PythonSource.model_validate({"folder": folder, **more}), folder)


def write(folder, **files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    return folder


@pytest.mark.parametrize("file", corpus_files("folders"), ids=lambda file: file.stem)
def test_a_folder_is_read_as_expected(file, tmp_path, update_corpus):
    files = read_cases(file)
    options = files.pop("options").splitlines()
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    found = {}
    for option in options:
        collected = read(tmp_path, **json.loads(option))
        tools = [tool.model_dump(exclude_defaults=True) for tool in collected.tools]
        found[option] = {"tools": tools, "left_out": collected.info["left_out"]}
    expected = file.with_name(f"{file.stem}.tools.json")
    names = {f"python:{tmp_path.name}": "python:FOLDER"}
    check_expected(expected, found, names, update=update_corpus)


PACKAGES = [
    CORPUS / "folders" / "package.txt",
    *(
        file
        for file in corpus_files("python")
        if "crawlers/PKG.yaml" not in file.read_text()
    ),
]
UNSEEN = {  # by the text alone, with the names that only the import shows
    "annotation-imports": {"Client.later.send"},
    "client": {"Client.carriers.list", "Client.zones.list"},
    "deprecations": {"by_access"},
    "descriptors": {"Customer.copy"},
    "late-names": {"gamma.guess"},
    "function-in-property": {"Client.rates.find"},
    "sdk": {"Line.text"},
    "two-classes-of-one-attribute": {"Client.rates.quote"},
}


@pytest.mark.parametrize("file", PACKAGES, ids=lambda file: file.stem)
def test_a_folder_gives_the_tools_that_the_package_does(file, make_package, tmp_path):
    files = read_cases(file)
    options = files.pop("options").splitlines()
    name = make_package(
        {
            path.removeprefix("shop/"): text.replace("shop", "PKG")
            for path, text in files.items()
        }
    )
    for option in options:
        rules = json.loads(option.replace("PKG", name).replace("shop", name))
        by_text = read_or_none(folder=tmp_path / name, **rules)
        assert not (tmp_path / name / "was-run").exists()
        imported = read_or_none(package=name, **rules)
        (tmp_path / name / "was-run").unlink(missing_ok=True)
        unseen = {f"{name}.{one}" for one in UNSEEN.get(file.stem, ())}
        assert (by_text.keys() ^ imported.keys()) <= unseen
        for one in by_text.keys() & imported.keys():
            tool, other = by_text[one], imported[one]
            assert tool.model_dump(include=SAME) == other.model_dump(include=SAME)
            if "enum" not in rules.get("kinds", ()):
                for key in ("properties", "required"):
                    found = [[*one.parameters.get(key, ())] for one in (tool, other)]
                    assert found[0] == found[1]


def read_or_none(**given):
    config = PythonSource.model_validate(given)
    try:
        found = SOURCES.find("python", "").read(config, Path())
    except InputError:
        return {}
    return {tool.name: tool for tool in found.tools}


SAME = {"kind", "summary", "description", "aliases", "call"}


def test_a_file_that_can_not_be_parsed_is_named_with_its_line(tmp_path):
    package = write(
        tmp_path / "weather",
        __init__='def rain(city): "Say if it rains."',
        broken="def f(:\n",
        old='print "hello"',
    )
    (package / "latin.py").write_bytes(
        '# coding: latin-1\ndef ä(x): "Dö it."\n'.encode("latin-1")
    )
    (package / "binary.py").write_bytes(b"\xff\xfe\x00")
    (package / "again").symlink_to(package)
    collected = read(package)
    assert [tool.name for tool in collected.tools] == ["weather.rain"]
    assert collected.info["left_out"]["can't be parsed"] == 4
    said = "\n".join(collected.problems)
    for place in ("broken.py, line 1", "old.py, line 1", "binary.py"):
        assert f"weather/{place}" in said
    assert "weather/latin.py, not UTF-8 text; save it as UTF-8" in said


def test_a_file_that_is_nested_too_deep_is_told(tmp_path):
    write(tmp_path, a='def f(x): "Do."', b=f"x = {'-' * 20_000}1")
    collected = read(tmp_path)
    assert [tool.name for tool in collected.tools] == ["a.f"]
    assert any("b" in line for line in collected.problems)


def test_what_is_no_folder_of_source_is_told(tmp_path):
    write(tmp_path / "empty")
    write(tmp_path / "bare", __init__="def f(x): ...")
    write(tmp_path / "broken", __init__="def f(:")
    (tmp_path / "file.py").write_text("")
    for name, said in (
        ("missing", "there is no such folder"),
        ("file.py", "is no folder"),
        ("empty", "has no Python package"),
        ("bare", "no public functions or classes with a docstring"),
        ("broken", "line 1: invalid syntax"),
    ):
        with pytest.raises(InputError, match=said):
            read(tmp_path / name)


@pytest.mark.parametrize("given", [{}, {"package": "numpy", "folder": "src"}])
def test_a_package_or_a_folder_is_given_and_not_both(given):
    with pytest.raises(ValueError, match="give `package`"):
        PythonSource.model_validate(given)


def test_an_annotation_of_an_empty_tuple_is_no_class(tmp_path):
    text = """
        class Rain:
            "Say if it rains."
            empty: tuple[()] = ()
            last: Final[()] = ()
            def __init__(self, city): ...
    """
    package = write(tmp_path / "weather", __init__=textwrap.dedent(text))
    assert [tool.name for tool in read(package).tools] == ["weather.Rain"]


def test_a_change_of_a_file_is_another_content(tmp_path):
    package = write(tmp_path / "weather", __init__='def rain(city): "Say it."')
    kind, config = SOURCES.find("python", ""), PythonSource(folder=package)
    first = kind.version(config)
    assert kind.version(config) == first
    write(package, more="")
    assert kind.version(config) != first


@given(st.text(alphabet=" \n\t:()[]{}'\"\\#@=,.defclassxy0é*", max_size=60))
def test_any_text_is_read_or_named(tmp_path_factory, text):
    folder = tmp_path_factory.mktemp("any") / "weather"
    folder.mkdir()
    (folder / "__init__.py").write_text('def rain(city): "Say if it rains."')
    (folder / "other.py").write_text(text, encoding="utf-8")
    collected = read(folder)
    assert "weather.rain" in {tool.name for tool in collected.tools}
    try:
        ast.parse(text)
    except (SyntaxError, ValueError):
        assert any("weather/other.py" in line for line in collected.problems)


def test_a_module_of_empty_lines_is_read_in_time():
    start = time.monotonic()
    assert read_exports("\n" * 200_000).lazy == {}
    assert time.monotonic() - start < 5
