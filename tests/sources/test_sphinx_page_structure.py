"""Nested structures as boto3's pages write them: lists in lists, and a syntax in placeholders."""
# ruff: noqa: RUF001 - Sphinx sets a dash between a name and what is said of it

from __future__ import annotations

import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.sources.sphinx_pages import (
    field,
    function,
    properties,
    read_object,
    real_pages,
    required,
)
from toolbank.bank.records import Raised, Returned, SeeAlso
from toolbank.sources.sphinx.pages.fields import read_syntax
from toolbank.sources.sphinx.pages.page import Page
from toolbank.sources.typetext import parameters_schema

SYNTAX = """<h3>Request Syntax</h3>
<div class="highlight-default notranslate"><div class="highlight"><pre><span></span><span class="n">response</span>
<span class="o">=</span> client.publish(
    Message=<span class="s1">'string'</span>,
    Kind='one'|'two',
    Rules=[
        {
            'Name': 'a'|'b',
            'On': True|False,
            'When': datetime(2015, 1, 1)
        },
    ],
    Attributes={
        'x'|'y': {
            'Value': b'bytes'
        }
    }
)
</pre></div></div>"""
PARAMETERS = """<ul class="simple">
<li><p><strong>Message</strong> (<em>string</em>) – <p><strong>[REQUIRED]</strong></p>
<p>The words.</p>
<ul>
<li><p><code>one</code> - The first.</p></li>
</ul>
</p></li>
<li><p><strong>Kind</strong> (<em>string</em>) – Its kind.</p></li>
<li><p><strong>Rules</strong> (<em>list</em>) – <p>All rules.</p>
<ul>
<li><p><em>(dict) –</em></p>
<p>One rule.</p>
<ul>
<li><p><strong>Name</strong> <em>(string) –</em> <strong>[REQUIRED]</strong></p>
<p>Its name.</p>
</li>
<li><p><strong>On</strong> <em>(boolean) –</em></p></li>
<li><p><strong>When</strong> <em>(datetime) –</em></p></li>
</ul>
</li>
</ul>
</p></li>
<li><p><strong>Attributes</strong> (<em>dict</em>) – <p>More.</p>
<ul>
<li><p><em>(string) –</em></p>
<ul>
<li><p><em>(dict) –</em></p>
<ul>
<li><p><strong>Value</strong> <em>(bytes) –</em></p></li>
</ul>
</li>
</ul>
</li>
</ul>
</p></li>
<li><p><strong>Body</strong> (<em>bytes</em><em> or </em><em>seekable file-like object</em>) – Data.</p></li>
</ul>"""
RESULT = """<p><h3>Response Syntax</h3><div class="highlight"><pre>{
    'State': 'on'|'off',
    'Sizes': [
        123,
    ]
}</pre></div><h3>Response Structure</h3>
<ul><li><p><em>(dict) –</em></p><p>What came of it.</p><ul>
<li><p><strong>State</strong> <em>(string) –</em></p><p>The state.</p></li>
<li><p><strong>Sizes</strong> <em>(list) –</em></p><ul><li><p><em>(integer) –</em></p></li></ul></li>
</ul></li></ul></p>"""


def test_nested_parameters_keep_their_structure_marks_and_values() -> None:
    found = function(SYNTAX + field("Parameters", PARAMETERS), "**kwargs")
    assert properties(found) == {
        "Message": {"type": "string", "description": "The words. - one - The first."},
        "Kind": {"type": "string", "enum": ["one", "two"], "description": "Its kind."},
        "Rules": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "Name": {
                        "type": "string",
                        "description": "Its name.",
                        "enum": ["a", "b"],
                    },
                    "On": {"type": "boolean"},
                    "When": {"type": "string", "format": "date-time"},
                },
                "required": ["Name"],
                "description": "One rule.",
            },
            "description": "All rules.",
        },
        "Attributes": {
            "type": "object",
            "propertyNames": {"type": "string", "enum": ["x", "y"]},
            "additionalProperties": {
                "type": "object",
                "properties": {"Value": {"type": "string", "format": "bytes"}},
            },
            "description": "More.",
        },
        "Body": {
            "type": "string",
            "format": "bytes or seekable file-like object",
            "description": "Data.",
        },
    }
    assert required(found) == ["Message"]


def test_a_map_may_name_its_key_and_value_side_by_side() -> None:
    body = """<p><strong>tags</strong> (<em>dict</em>) – </p><p>Tags.</p><ul>
    <li><p><em>(string) –</em> The key.</p></li><li><p><em>(integer) –</em></p></li></ul>"""
    assert properties(function(field("Parameters", body))) == {
        "tags": {
            "type": "object",
            "propertyNames": {"type": "string", "description": "The key."},
            "additionalProperties": {"type": "integer"},
            "description": "Tags.",
        }
    }


def test_a_nested_result_has_its_schema() -> None:
    kind = field("Return type", "<p>dict</p>")
    found = function(kind + field("Returns", RESULT))
    assert found.documented.returns == (
        Returned(
            type="dict",
            description="What came of it.",
            structure={
                "type": "object",
                "properties": {
                    "State": {
                        "type": "string",
                        "description": "The state.",
                        "enum": ["on", "off"],
                    },
                    "Sizes": {"type": "array", "items": {"type": "integer"}},
                },
            },
        ),
    )


def test_a_structure_too_large_to_be_shown_is_told_by_its_syntax() -> None:
    result, _, _ = RESULT.partition("<ul><li>")
    (returned,) = function(field("Returns", result)).documented.returns
    assert returned.structure == {
        "type": "object",
        "properties": {
            "State": {"type": "string", "enum": ["on", "off"]},
            "Sizes": {"type": "array", "items": {"type": "integer"}},
        },
    }


def test_what_a_list_leaves_out_is_told_by_the_syntax() -> None:
    result = RESULT.replace("<ul><li><p><em>(integer) –</em></p></li></ul>", "")
    (returned,) = function(field("Returns", result)).documented.returns
    assert returned.structure is not None
    sizes = returned.structure["properties"]["Sizes"]
    assert sizes == {"type": "array", "items": {"type": "integer"}}
    whole = re.sub(r"<li><p><strong>Sizes.*?</ul></li>", "", RESULT)
    (returned,) = function(field("Returns", whole)).documented.returns
    assert returned.structure is not None
    assert list(returned.structure["properties"]) == ["State", "Sizes"]


def test_a_property_tells_what_it_holds() -> None:
    found = read_object(
        """<dl class="py attribute"><dt class="sig sig-object py" id="a.f"><span
        class="sig-name descname">f</span></dt><dd><ul><li><p><em>(list) –</em></p><p>All names.</p>
        <ul><li><p><em>(string) –</em></p></li></ul></li></ul></dd></dl>""",
        role="attribute",
    )
    assert found.kind == "property"
    assert found.documented.summary == "All names."
    assert found.documented.returns == (
        Returned(type="list", structure={"type": "array", "items": {"type": "string"}}),
    )


def test_a_method_of_boto3_carries_its_page() -> None:
    body = """<p>Sends a message.</p>
    <p>See also: <a class="reference external" href="https://aws.example/Publish">AWS API Documentation</a></p>
    <h3>Exceptions</h3><ul class="simple"><li><p><code><span class="pre">SNS.Client.exceptions.NotFound</span>
    </code></p></li></ul>
    <h3>Restrictions</h3><ul><li><p>Only once.</p></li></ul>
    <h3>Examples</h3><p>This sends one.</p><div class="highlight"><pre>client.publish()
print(1)</pre></div>"""
    documented = function(body).documented
    assert documented.summary == "Sends a message."
    assert documented.description == ""
    assert documented.see_also == (
        SeeAlso(
            name="AWS API Documentation", description="https://aws.example/Publish"
        ),
    )
    assert documented.raises == (Raised(type="SNS.Client.exceptions.NotFound"),)
    assert documented.notes == "Restrictions:\n\n- Only once."
    assert documented.examples == "This sends one.\n\nclient.publish()\nprint(1)"


def test_what_is_nested_without_end_stays_text() -> None:
    levels = 60
    nested = "<ul><li><p><strong>x</strong> <em>(dict) –</em></p>" * levels
    nested += "<p>deep</p>" + "</li></ul>" * levels
    schema: Any = properties(function(field("Parameters", nested)))["x"]
    depth = 1
    while "properties" in schema:
        schema = schema["properties"]["x"]
        depth += 1
    assert 30 < depth < levels
    assert "deep" in schema["description"]


def test_syntax_with_escapes_comments_and_recursion() -> None:
    text = """response = client.f(
        A='it\\'s'|'b|c',  # a comment
        B={'... recursive ...'},
        C=[{'D': 123.0}|{'E': 1}],
        F=EventStream({'G': 'string'}),
        H=-1
    )"""
    assert read_syntax(text) == {
        "type": "object",
        "properties": {
            "A": {"type": "string", "enum": ["it's", "b|c"]},
            "B": {"type": "object", "properties": {}},
            "C": {
                "type": "array",
                "items": {"type": "object", "properties": {"D": {"type": "number"}}},
            },
            "F": {"type": "object", "properties": {"G": {"type": "string"}}},
            "H": {"type": "integer"},
        },
    }


@given(st.text("ab'\"|,:=(){}[]\\ \n1.#") | st.text())
def test_any_text_is_a_syntax(text: str) -> None:
    assert isinstance(read_syntax(text), dict)


def test_brackets_without_end_are_read_in_time() -> None:
    for mark in "[{(":
        assert isinstance(read_syntax(f"f({mark * 200_000}"), dict)


def _as_list(item: tuple[str, Any]) -> tuple[str, Any]:
    text, schema = item
    return f"[{text},]", {"type": "array", "items": schema}


def _as_object(items: dict[str, tuple[str, Any]]) -> tuple[str, Any]:
    text = ", ".join(f"'{key}': {item[0]}" for key, item in items.items())
    members = {key: item[1] for key, item in items.items()}
    return f"{{{text}}}", {"type": "object", "properties": members}


names = st.from_regex(r"[A-Z]\w{0,4}", fullmatch=True)
schemas = st.recursive(
    st.sampled_from(
        [
            ("'string'", {"type": "string"}),
            ("'a'|'b'", {"type": "string", "enum": ["a", "b"]}),
            ("True|False", {"type": "boolean"}),
            ("123", {"type": "integer"}),
        ]
    ),
    lambda inner: (
        inner.map(_as_list) | st.dictionaries(names, inner, max_size=4).map(_as_object)
    ),
    max_leaves=12,
)


@given(schemas)
def test_a_syntax_gives_the_structure_that_it_was_written_from(
    written: tuple[str, dict[str, Any]],
) -> None:
    text, schema = written
    assert read_syntax(f"client.f(X={text})")["properties"] == {"X": schema}
    assert read_syntax(text) == schema


def test_every_method_of_a_real_service_has_what_its_page_shows() -> None:
    count = 0
    for path, html in real_pages("boto3", "reference/services/sns/client/"):
        name = path.rpartition("/")[2].removesuffix(".html")
        if name == "index":
            continue
        found = Page(html, path).read(f"SNS.Client.{name}", "method")
        assert found is not None
        assert found.documented.summary, path
        schema = parameters_schema(found.documented.parameters)
        if "Request Syntax" in html:
            assert _marks(schema) == html.count("[REQUIRED]"), path
            assert "REQUIRED" not in str(schema)
        for title, values in (
            ("Exceptions", found.documented.raises),
            ("Examples", found.documented.examples),
        ):
            if f"<h3>{title}" in html:
                assert values, path
        if "Response Structure" in html:
            assert found.documented.returns[0].structure, path
        count += 1
    assert count > 40


def _marks(schema: dict[str, Any]) -> int:
    """How many members are required, at every level."""
    inner = [*schema.get("properties", {}).values()]
    inner += [schema[key] for key in ("items", "additionalProperties") if key in schema]
    return len(schema.get("required", [])) + sum(map(_marks, inner))
