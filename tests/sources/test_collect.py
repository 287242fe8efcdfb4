from types import SimpleNamespace

import pytest

from toolbank.bank.records import SeeAlso, Tool
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
    assert f"1 of its 1 tool is in python:{package} too" in collected.notes[1]


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


def test_sources_are_read_into_one_sorted_list(lists, tmp_path):
    lists["python:two"] = (Tool(name="two.a", source="python:two 1"),)
    lists["python:mine"] = (Tool(name="one.b", source="python:one 1"),)
    sources = [PythonSource(package="two"), PythonSource(package="one", name="mine")]
    collected = collect_tools(sources, tmp_path)
    assert [(tool.name, tool.source) for tool in collected.tools] == [
        ("one.b", "python:mine"),
        ("two.a", "python:two"),
    ]
    assert collected.info["tools"] == 2
    assert [one["source"] for one in collected.info["sources"]] == [
        *("python:two", "python:mine")
    ]


def test_a_tool_that_another_source_has_by_another_name_counts_once(lists, tmp_path):
    f, deep = Tool(name="a.f", aliases=("a.deep.f",)), Tool(name="a.deep.f")
    lists["python:a"], lists["python:a.deep"] = (f,), (deep, Tool(name="a.deep.g"))
    for names, first in ((("a", "a.deep"), "a.f"), (("a.deep", "a"), "a.deep.f")):
        sources = [PythonSource(package=name) for name in names]
        collected = collect_tools(sources, tmp_path)
        assert [tool.name for tool in collected.tools] == sorted([first, "a.deep.g"])
        assert len(collected.notes) == 1


def test_a_tool_of_the_same_text_is_one_of_two_sources(lists, tmp_path):
    said = Tool(name="pay", summary="Pay a bill.")
    lists["python:a"] = (
        said.model_copy(update={"source": "python:a 1", "url": "http://a"}),
    )
    lists["python:b"] = (said.model_copy(update={"source": "python:b 2"}),)
    lists["python:c"] = lists["python:b"]
    sources = [PythonSource(package=name) for name in "abc"]
    collected = collect_tools(sources, tmp_path)
    assert [(tool.name, tool.source) for tool in collected.tools] == [
        ("pay", "python:a, python:b, python:c")
    ]
    assert [one["repeated"] for one in collected.info["sources"]] == [0, 1, 1]
    assert "python:c: 1 of its 1 tool is in python:a too" in collected.notes[1]


def test_a_tool_is_kept_that_an_unrelated_one_is_called_by_too(lists, tmp_path):
    lists["python:crm"] = (
        Tool(name="show", summary="Show a customer.", aliases=("see", "view")),
    )
    lists["python:shop"] = (
        Tool(name="look", summary="Look at the goods.", aliases=("show",)),
        Tool(name="see", summary="See the goods."),
    )
    for names in (("crm", "shop"), ("shop", "crm")):
        sources = [PythonSource(package=name) for name in names]
        collected = collect_tools(sources, tmp_path)
        assert [(tool.name, tool.aliases) for tool in collected.tools] == [
            ("look", ()),
            ("see", ()),
            ("show", ("view",)),
        ]
        assert [one["repeated"] for one in collected.info["sources"]] == [0, 0]


def test_two_tools_of_one_name_are_told_apart_by_a_prefix(lists, tmp_path):
    lists["python:crm"] = (
        Tool(name="list", summary="List the customers."),
        Tool(
            name="show",
            summary="Show a customer.",
            aliases=("see",),
            see_also=(SeeAlso(name="list"), SeeAlso(name="elsewhere")),
        ),
    )
    lists["python:shop"] = (
        Tool(name="list", summary="List the goods."),
        Tool(name="see", summary="See the goods."),
    )
    crm, shop = PythonSource(package="crm"), PythonSource(package="shop")
    with pytest.raises(InputError) as caught:
        collect_tools([crm, shop], tmp_path)
    for said in ("python:crm", "python:shop", "named list.", "`prefix: NAME`"):
        assert said in str(caught.value)
    crm = crm.model_copy(update={"prefix": "crm"})
    tools = {tool.name: tool for tool in collect_tools([crm, shop], tmp_path).tools}
    assert list(tools) == ["crm/list", "crm/show", "list", "see"]
    assert tools["crm/show"].aliases == ("crm/see",)
    assert [also.name for also in tools["crm/show"].see_also] == [
        "crm/list",
        "elsewhere",
    ]


def test_of_a_package_and_its_pages_the_first_counts(lists, tmp_path):
    lists["python:numpy"] = (Tool(name="numpy.sum", summary="Sum of elements."),)
    lists["sphinx:numpy"] = (Tool(name="numpy.sum", summary="Sum."),)
    sources = [PythonSource(package="numpy"), SphinxSource(site="numpy")]
    collected = collect_tools(sources, tmp_path)
    assert [tool.summary for tool in collected.tools] == ["Sum of elements."]
    assert "in python:numpy too" in collected.notes[0]


def test_twins_that_a_file_names_are_found_behind_a_prefix(
    lists,
    tmp_path,
    monkeypatch,
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "crawlers").mkdir()
    (tmp_path / "crawlers" / "shop.twins").write_text("buy order\n")
    lists["python:shop"] = (Tool(name="buy", summary="Buy."), Tool(name="order"))
    source = PythonSource(package="shop", prefix="my")
    tools = collect_tools([source], tmp_path).tools
    assert [tool.twins for tool in tools] == [("my/order",), ("my/buy",)]


def test_of_two_tools_of_one_name_in_a_source_the_first_counts(lists, tmp_path):
    lists["python:a"] = tuple(Tool(name="a.b", summary=text) for text in ("1.", "2."))
    collected = collect_tools([PythonSource(package="a")], tmp_path)
    assert [tool.summary for tool in collected.tools] == ["1."]
    info = {"source": "python:a", "tools": 1, "repeated": 1}
    assert collected.info == {"tools": 1, "sources": [info]}
    (problem,) = collected.problems
    assert problem.startswith("python:a: ") and "(1), such as a.b" in problem


@pytest.mark.usefixtures("lists")
def test_what_a_kind_did_not_foresee_names_the_source(tmp_path):
    with pytest.raises(InputError, match=r"python:a can't be read \(KeyError: 'pyth"):
        collect_tools([PythonSource(package="a")], tmp_path)


def city(schema):
    """Parameters of which one is sound, and one may not be."""
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
def test_a_tool_that_can_not_be_called_is_told_with_its_source(
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
    recipe.write_text(
        f"name: x\nsources: [{{type: python, package: json, {key}: '{value}'}}]\n"
    )
    with pytest.raises(InputError, match=key):
        load_recipe(str(recipe))
