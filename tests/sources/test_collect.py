import json
from types import SimpleNamespace

import pytest

from tests.corpus_files import check_expected, corpus_files
from toolbank.bank.records import Tool
from toolbank.run.recipe import load_recipe
from toolbank.sources.collect import collect_tools, source_versions
from toolbank.sources.kind import SourceKind, ToolCollection
from toolbank.sources.python.settings import PythonSource
from toolbank.sources.sphinx.settings import SphinxSource
from toolbank.system.errors import InputError


def test_a_source_that_is_listed_twice_is_told(make_package, tmp_path):
    package = make_package('def f(): "Do."\nclass Wrong(Exception): "Went wrong."')
    source = PythonSource(package=package)
    collected = collect_tools([source, source], tmp_path)
    assert [tool.name for tool in collected.tools] == [f"{package}.f"]
    assert len(collected.notes) == 2
    assert "is listed as a source twice" in collected.notes[1]


@pytest.fixture
def lists(monkeypatch):
    """The tools that are read, by the label of their source: what it reads is replaced."""
    held = {}

    def read(config, _):
        return ToolCollection(held[config.label], {"source": config.label})

    kinds = {
        "python": SourceKind(PythonSource, read, lambda _: "1"),
        "sphinx": SourceKind(SphinxSource, read, lambda _: "1"),
    }
    sources = SimpleNamespace(find=lambda name, _: kinds[name])
    monkeypatch.setattr("toolbank.sources.collect.SOURCES", sources)
    return held


def collect(sources, folder):
    """What comes of sources that are configured so, or the error."""
    kinds = {"python": PythonSource, "sphinx": SphinxSource}
    try:
        found = collect_tools([kinds[one["type"]](**one) for one in sources], folder)
    except InputError as error:
        return {"error": str(error)}
    tools = [tool.model_dump(exclude_defaults=True) for tool in found.tools]
    said = {"notes": found.notes, "problems": found.problems}
    return {"tools": tools, "info": found.info, **said}


@pytest.mark.parametrize("file", corpus_files("collected"), ids=lambda file: file.stem)
def test_sources_are_merged_as_expected(lists, tmp_path, file, update_corpus):
    case = json.loads(file.read_text())
    for label, tools in case["read"].items():
        lists[label] = tuple(map(Tool.model_validate, tools))
    found = [collect(sources, tmp_path) for sources in case["sources"]]
    expected = file.with_name(f"{file.name}.tools.json")
    check_expected(expected, found, update=update_corpus)


def test_twins_of_a_file_are_found_behind_a_prefix(lists, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "crawlers").mkdir()
    (tmp_path / "crawlers" / "shop.twins").write_text("buy order\n")
    lists["python:shop"] = (Tool(name="buy", summary="Buy."), Tool(name="order"))
    source = PythonSource(package="shop", prefix="my")
    tools = collect_tools([source], tmp_path).tools
    assert [tool.twins for tool in tools] == [("my/order",), ("my/buy",)]


@pytest.mark.usefixtures("lists")
def test_what_a_kind_did_not_foresee_names_the_source(tmp_path):
    with pytest.raises(InputError, match=r"python:a can't be read \(KeyError: 'pyth"):
        collect_tools([PythonSource(package="a")], tmp_path)


def city(schema):
    return {"type": "object", "properties": {"a": {}, "city": schema}}


@pytest.mark.parametrize(
    ("name", "parameters", "said"),
    [
        ("", {"type": "object"}, r"a tool has no name \(Forecast\.\)"),
        ("\ud800", {"type": "object"}, "JSON .name: .*surrogates not allowed"),
        ("a.b", city({"title": "\ud800"}), "'a.b' .*JSON .*surrogates not allowed"),
        ("a.b", city({"default": float("nan")}), "'a.b' .*JSON .*Out of range float"),
        ("a.b", city({"default": {1, 2}}), "'a.b' .*JSON .*set"),
        ("a.b", city({"pattern": "("}), r"of a.b .*city.pattern: .*regex"),
    ],
)
def test_a_tool_that_no_one_can_call_is_refused(
    lists, tmp_path, name, parameters, said
):
    tool = Tool(name=name, kind="function", summary="Forecast.", parameters=parameters)
    lists["python:a"] = (tool,)
    with pytest.raises(InputError, match=f"^sources: python:a: .*{said}"):
        collect_tools([PythonSource(package="a")], tmp_path)


def test_no_source_is_bad_input(tmp_path):
    with pytest.raises(InputError, match="no tool was found"):
        collect_tools([], tmp_path)


def test_versions_stand_for_the_content_of_sources():
    import numpy

    version = f"python:numpy=={numpy.__version__}"
    (bare,) = source_versions([PythonSource(package="numpy", exclude=())])
    (scoped,) = source_versions([PythonSource(package="numpy")])
    assert bare.startswith(version)
    assert scoped.startswith(f"{version}#")
    assert scoped != bare


def test_the_version_of_a_site_follows_its_crawler_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    crawler = tmp_path / "crawlers" / "mine.yaml"
    crawler.parent.mkdir()
    crawler.write_text("a: 1")
    before = source_versions([SphinxSource(site="mine")])
    crawler.write_text("a: 2")
    after = source_versions([SphinxSource(site="mine")])
    moved = source_versions([SphinxSource(site="mine", base_url="http://127.0.0.1/")])
    assert len({*before, *after, *moved}) == 3


@pytest.mark.parametrize("name", [".json", "..json", "json.", "a b", ".", "a..b"])
def test_a_name_that_nothing_can_be_imported_by_is_refused(name, tmp_path):
    source = PythonSource(package=name)
    with pytest.raises(InputError, match="no import name"):
        source_versions([source])
    with pytest.raises(InputError, match="no import name"):
        collect_tools([source], tmp_path)


def test_the_old_name_of_a_key_is_an_error_that_names_the_new_one(tmp_path):
    recipe = tmp_path / "mine.yaml"
    recipe.write_text("name: x\nsources: [{type: sphinx, site: numpy, conduct: {}}]\n")
    with pytest.raises(InputError, match="conduct'; it is called 'crawl' now"):
        load_recipe(str(recipe))


@pytest.mark.parametrize("key", ["name", "prefix"])
@pytest.mark.parametrize("value", ["a b", "a/b", "-a", "", ".", "ü"])
def test_names_are_of_letters_digits_and_few_signs(tmp_path, key, value):
    recipe = tmp_path / "mine.yaml"
    source = f"{{type: python, package: json, {key}: '{value}'}}"
    recipe.write_text(f"name: x\nsources: [{source}]\n")
    with pytest.raises(InputError, match=key):
        load_recipe(str(recipe))
