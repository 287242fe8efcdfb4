"""Signatures, and the field lists that tell of their parameters."""
# ruff: noqa: RUF001 - Sphinx sets the dots and quotes of prose

from __future__ import annotations

import pytest

from tests.sources.sphinx_pages import (
    field,
    function,
    properties,
    read_object,
    required,
)
from toolbank.bank.records import Returned, VersionNote


def listed(*entries: tuple[str, str]) -> str:
    """A field list as numpydoc writes it."""
    terms = "".join(
        f'<dt><strong>{name}</strong><span class="classifier">{kind}</span></dt>'
        f"<dd><p>About {name}.</p></dd>"
        for name, kind in entries
    )
    return field("Parameters", f"<dl>{terms}</dl>")


def test_the_members_of_a_sequence_are_one_argument() -> None:
    body = listed(("a1, a2, …", "sequence of array_like"), ("axis", "int, optional"))
    found = function(body, "(a1", "a2", "...)", "axis=0")
    assert found.signature == "((a1, a2, ...), axis=0)"
    assert properties(found)["a"] == {
        "type": "array",
        "items": {"type": "array", "format": "array_like"},
        "format": "sequence of array_like",
        "description": "About a1, a2, ….",
    }
    assert list(properties(found)) == ["a", "axis"]
    assert required(found) == ["a"]


def test_words_under_other_names_are_matched_by_place() -> None:
    body = listed(("a, b", "array_like"), ("axes", "int, optional"))
    found = function(body, "x1", "x2", "/", "*", "axes=2")
    assert list(properties(found)) == ["x1", "x2", "axes"]
    assert properties(found)["x1"] == {
        "type": "array",
        "format": "array_like",
        "description": "About a, b.",
    }
    assert required(found) == ["x1", "x2"]


@pytest.mark.parametrize(
    ("parameters", "entries"),
    [
        (("x",), (("y", "int"), ("z", "int"))),
        (("x",), (("output", "bool, optional"),)),
        (("x", "**options"), (("y", "int"),)),
        (("x=None",), (("old", "int"),)),
    ],
)
def test_words_of_what_is_no_argument_describe_none(
    parameters: tuple[str, ...], entries: tuple[tuple[str, str], ...]
) -> None:
    assert "description" not in str(
        properties(function(listed(*entries), *parameters))["x"]
    )


def test_a_signature_that_takes_all_leaves_it_to_the_words_what_is_needed() -> None:
    entries = (("new_categories", "list-like"), ("ordered", "bool, default False"))
    every = ("*args", "**kwargs")
    assert required(function(listed(*entries), *every)) == ["new_categories"]
    unmarked = (*entries, ("title", "str"))
    assert required(function(listed(*unmarked), *every)) == []
    assert required(function(listed(*entries), "*args", "x=1", "**kwargs")) == []


def test_what_the_words_call_optional_is_not_required() -> None:
    found = function(listed(("sep", "str, optional")), "string", "sep")
    assert required(found) == ["string"]


def test_a_default_that_sphinx_split_at_its_comma_is_whole() -> None:
    found = function("<p>It is.</p>", "thousands='", "'", 'sep="a', 'b"', "end='x'")
    assert found.signature == "(thousands=',', sep=\"a,b\", end='x')"
    assert properties(found) == {
        "thousands": {"type": "string", "default": ","},
        "sep": {"type": "string", "default": "a,b"},
        "end": {"type": "string", "default": "x"},
    }


def test_a_note_that_begins_with_a_parameter_is_its_own() -> None:
    note = '<div class="deprecated"><p><span class="versionmodified deprecated">Deprecated since '
    note += "version 19.2: </span>{}</p></div>"
    body = note.format("<em>cmp</em> Use <em>eq</em>.") + note.format(
        "<em>convert</em>"
    )
    found = function(body, "cmp=None")
    assert found.documented.deprecated == ""
    assert found.documented.versions == (
        VersionNote(
            change="deprecated",
            version="19.2",
            description="cmp Use eq.",
            parameter="cmp",
        ),
        VersionNote(
            change="deprecated",
            version="19.2",
            description="convert",
            parameter="convert",
        ),
    )
    assert properties(found)["cmp"] == {"deprecated": True}
    whole = function(note.format("<em>Never</em> use it."), "cmp")
    assert whole.documented.deprecated == "Never use it."


def test_references_inside_the_words_of_a_parameter_are_kept() -> None:
    body = """<dl><dt><strong>protocol</strong></dt><dd><p>See <a href="#r1">[1]</a>.</p>
    <div role="list" class="citation-list"><div class="citation" id="r1" role="doc-biblioentry"><span
    class="label">[<a href="#id1">1</a>]</span><p>A page.</p></div></div></dd></dl>"""
    found = function(field("Parameters", body))
    assert properties(found)["protocol"] == {"description": "See. [1] A page."}


def test_a_declaration_of_c_is_read() -> None:
    found = read_object(
        """<dl class="c function"><dt class="sig sig-object c" id="c.f"><span class="n">PyObject</span><span
        class="w"> </span><span class="p">*</span><span class="sig-name descname"><span class="n">f</span></span><span
        class="sig-paren">(</span><span class="kt">int</span><span class="w"> </span><span
        class="n">count</span>, <span class="k">const</span><span class="w"> </span><span
        class="kt">char</span><span class="w"> </span><span class="p">*</span><span class="n">name</span>, <span
        class="kt">void</span> <span class="p">(</span><span class="p">*</span><span class="n">done</span><span
        class="p">)</span><span class="p">(</span><span class="p">)</span>, <span
        class="p">...</span><span class="sig-paren">)</span><a class="headerlink" href="#c.f">¶</a><br></dt>
        <dd><p>Make one.</p></dd></dl>""",
        "c.f",
    )
    assert found.signature == "(int count, const char *name, void (*done)(), ...)"
    assert properties(found) == {
        "count": {"type": "integer", "format": "int"},
        "name": {"type": "string", "format": "const char *"},
        "done": {"format": "void (*done)()"},
    }
    assert required(found) == ["count", "name", "done"]
    assert found.documented.returns == (Returned(type="PyObject *"),)


def test_the_parameters_of_a_template_stay_apart() -> None:
    listing = field("Template Parameters", "<p><strong>T</strong> – A type.</p>")
    found = read_object(
        f"""<dl class="cpp function"><dt class="sig sig-object cpp" id="m"><span
        class="k">template</span><span class="p">&lt;</span><span class="k">typename</span> <span
        class="sig-name descname"><span class="n">T</span></span><span class="p">&gt;</span><br><span
        class="kt">void</span> <span class="sig-name descname"><span class="n">m</span></span><span
        class="sig-paren">(</span><span class="k">const</span> <span class="n">std</span><span
        class="p">::</span><span class="n">map</span><span class="p">&lt;</span><a><span class="n">T</span></a>, <a><span
        class="n">T</span></a><span class="p">&gt;</span> <span class="p">&amp;</span><span class="n sig-param">v</span>,
        <span class="kt">double</span> <span class="n sig-param">d</span> <span class="p">=</span> <span
        class="m">0.5</span><span class="sig-paren">)</span></dt><dd><p>Do it.</p>{listing}</dd></dl>""",
        "m",
    )
    assert found.signature == "(const std::map<T, T> &v, double d = 0.5)"
    assert properties(found) == {
        "v": {"format": "const std::map<T, T> &"},
        "d": {"type": "number", "format": "double", "default": 0.5},
    }
    assert required(found) == ["v"]
    assert found.documented.returns == ()
    assert found.documented.notes == "Template Parameters: T – A type."


def test_the_names_of_a_macro_are_its_parameters() -> None:
    found = read_object(
        """<dl class="c macro"><dt class="sig sig-object c" id="c.MAX"><span class="sig-name descname"><span
        class="n">MAX</span></span><span class="sig-paren">(</span><span class="n">a</span>, <span
        class="n">b</span><span class="sig-paren">)</span></dt><dd><p>The larger.</p></dd></dl>""",
        "c.MAX",
        "macro",
    )
    assert required(found) == ["a", "b"]
