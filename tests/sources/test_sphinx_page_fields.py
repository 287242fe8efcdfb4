"""Field lists in every form that Sphinx and its extensions write them."""
# ruff: noqa: RUF001 - Sphinx sets a dash between a name and what is said of it

from __future__ import annotations

import pytest

from tests.sources.sphinx_pages import (
    field,
    function,
    properties,
    read_object,
    required,
)
from toolbank.bank.records import Raised, Returned, VersionNote

LIST = """<ul class="simple">
<li><p><strong>goods</strong> (<em>list</em><em> of </em><em>str</em>) – What to buy: names, separated
by nothing.</p></li>
<li><p><strong>price</strong> (<a class="reference external" href="x"><em>float</em></a><em>,
</em><em>optional</em>) -- What one costs.</p></li>
<li><p><strong>on_done</strong> (<span class="sphinx_autodoc_typehints-type"><code>Callable</code>[[<code>int</code>],
<code>None</code>] | <code>None</code></span>) – Called when done.</p></li>
<li><p><strong>*rest</strong> – More numbers.</p></li>
<li><p><strong>**options</strong> – Other options.</p></li>
</ul>"""


def test_reads_a_list_of_parameters_with_types_split_into_pieces() -> None:
    found = function(field("Parameters", LIST))
    assert properties(found) == {
        "goods": {
            "type": "array",
            "items": {"type": "string"},
            "description": "What to buy: names, separated by nothing.",
        },
        "price": {"type": "number", "description": "What one costs."},
        "on_done": {
            "anyOf": [{"format": "Callable[[int], None]"}, {"type": "null"}],
            "description": "Called when done.",
        },
        "rest": {"type": "array", "description": "More numbers."},
        "options": {"type": "object", "description": "Other options."},
    }
    assert required(found) == ["goods", "on_done"]


@pytest.mark.parametrize(
    "body",
    [
        "<p><strong>x</strong> (<em>int</em>) – How many.</p>",
        "<p><strong>x</strong> (<em>int</em>) – </p><p>How many.</p><p></p>",
        "<ul><li><strong>x</strong> (<em>int</em>) – <p>How</p><p>many.</p></li></ul>",
        '<p><span class="target" id="p"></span><strong>x</strong><a class="paramlink '
        'headerlink" href="#p">¶</a> (<em>int</em>) – How many.</p>',
        "<dl><dt><strong>x</strong> : int</dt><dd><p>How many.</p></dd></dl>",
        '<dl><dt>x<span class="classifier">int</span></dt><dd>How many.</dd></dl>',
        '<dl><dt><strong>x</strong><span class="classifier">int</span></dt>'
        "<dd>How many.</dd></dl>",
        "<p><strong>x</strong> (<em>int</em>) How many.</p>",
        "<p><strong>x</strong> (<em>int</em>) – – How many.</p>",
        "<p><strong>x</strong> (<em>int</em>) –</p><dl><dt>– How many.</dt></dl>",
    ],
)
def test_a_lone_parameter_is_read_whatever_holds_it(body: str) -> None:
    found = function(field("Parameters", body), "x")
    assert properties(found) == {"x": {"type": "integer", "description": "How many."}}
    assert required(found) == ["x"]


def test_a_lone_parameter_keeps_the_lists_and_definitions_in_its_text() -> None:
    body = """<p><strong>x</strong> – One of these:</p><ul><li><p>one</p></li></ul>
    <dl><dt>two</dt><dd><p>The second.</p></dd></dl><p>Or none.</p>"""
    found = function(field("Parameters", body))
    words = "One of these: - one two: The second. Or none."
    assert properties(found) == {"x": {"description": words}}


def test_signature_and_words_of_a_parameter_come_together() -> None:
    words = "<li><p><strong>x</strong> – The first.</p></li>"
    words += "<li><p><strong>size</strong> (<em>int</em>) – For x.</p></li>"
    found = function(
        field("Parameters", f"<ul>{words}</ul>"), "x: str", "y: int = 3", "**more"
    )
    assert properties(found) == {
        "x": {"type": "string", "description": "The first."},
        "y": {"type": "integer", "default": 3},
        "size": {"type": "integer", "description": "For x."},
    }
    assert required(found) == ["x"]


def test_a_parameter_of_bold_text_without_field_stays_what_it_is() -> None:
    found = function("<p><strong>x</strong> (<em>int</em>) – text.</p>")
    assert properties(found) == {}
    assert found.documented.summary == "x (int) – text."


def test_names_in_quotation_marks_count_where_none_is_bold() -> None:
    body = "<ul><li><p><cite>document</cite>: The document.</p></li></ul>"
    assert properties(function(field("Parameters", body))) == {
        "document": {"description": "The document."}
    }


def test_fields_that_sphinx_left_as_written_are_read() -> None:
    body = """<dl class="field-list">
    <dt class="field-odd">type sizes</dt><dd class="field-odd"><p>list</p></dd>
    <dt class="field-even">param sizes</dt><dd class="field-even"><p><strong>[REQUIRED]</strong></p>
    <p>All sizes.</p><ul class="simple"><li><p><em>(string) –</em></p></li></ul></dd>
    <dt class="field-odd">param int count</dt><dd class="field-odd"><p>How many.</p></dd>
    <dt class="field-even">return bytes</dt><dd class="field-even"><p>All.</p></dd>
    <dt class="field-odd">raise OSError</dt><dd class="field-odd"><p>Always.</p></dd></dl>"""
    found = function(body)
    assert properties(found) == {
        "sizes": {
            "type": "array",
            "items": {"type": "string"},
            "description": "All sizes.",
        },
        "count": {"type": "integer", "description": "How many."},
    }
    assert found.documented.returns == (Returned(type="bytes", description="All."),)
    assert found.documented.raises == (Raised(type="OSError", description="Always."),)


def test_the_type_of_a_result_comes_from_its_own_field() -> None:
    kind = field("Return type", "<p><a><em>dict</em></a>[<a>str</a>, int]</p>")
    words = field("Returns", "<p>How many of each.</p>")
    both = Returned(type="dict[str, int]", description="How many of each.")
    assert function(kind + words).documented.returns == (both,)
    assert function(words + kind).documented.returns == (both,)
    assert function(kind).documented.returns == (Returned(type="dict[str, int]"),)
    assert function(words).documented.returns == (
        Returned(description="How many of each."),
    )


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("<p><em>Basket</em> – the basket.</p>", Returned(type="Basket", description="the basket.")),
        (
            "<p><strong>out</strong> (<em>ndarray</em>) – the sum.</p>",
            Returned(name="out", type="ndarray", description="the sum."),
        ),
        ("<dl><dt>bytes</dt><dd><p>All.</p></dd></dl>", Returned(type="bytes", description="All.")),
        ("<p>None</p>", Returned(type="None")),
        ("<p>True if it is – or not.</p>", Returned(description="True if it is – or not.")),
    ],
)  # fmt: skip
def test_forms_of_a_result(body: str, expected: Returned) -> None:
    assert function(field("Returns", body)).documented.returns == (expected,)


@pytest.mark.parametrize(
    "body",
    [
        '<ul><li><p><a href="#"><strong>Missing</strong></a> – if a good is not there.</p></li>'
        "<li><p><strong>ValueError</strong> – if negative.</p></li></ul>",
        '<ul><li><a href="#"><code>Missing</code></a> – if a good is not there.</li>'
        "<li><code>ValueError</code> – if negative.</li></ul>",
        "<dl><dt>Missing</dt><dd><p>if a good is not there.</p></dd>"
        "<dt>ValueError</dt><dd><p>if negative.</p></dd></dl>",
        "<ul><li><p>Missing: if a good is not there.</p></li>"
        "<li><p>ValueError: if negative.</p></li></ul>",
    ],
)
def test_forms_of_exceptions(body: str) -> None:
    assert function(field("Raises", body)).documented.raises == (
        Raised(type="Missing", description="if a good is not there."),
        Raised(type="ValueError", description="if negative."),
    )


def test_an_exception_told_in_one_line_is_parted() -> None:
    body = "<dl><dt>ValueError if the size is negative.</dt><dd></dd><dt><strong>KeyError</strong>"
    body += '<span class="classifier">If there is none</span></dt><dd><p>at all.</p></dd></dl>'
    body += "<dl><dt>TooLarge if it is.</dt></dl><dl><dt><strong>ValueError: shape mismatch</strong></dt><dd>If they differ.</dd></dl>"
    assert function(field("Raises", body)).documented.raises == (
        Raised(type="ValueError", description="if the size is negative."),
        Raised(type="KeyError", description="If there is none at all."),
        Raised(type="TooLarge", description="if it is."),
        Raised(type="ValueError", description="shape mismatch If they differ."),
    )


def test_only_names_are_names_of_parameters() -> None:
    body = "<dl><dt><strong>x1, x2, …</strong><span class='classifier'>int</span></dt><dd></dd>"
    body += "<dt><strong>``**kwargs``:</strong></dt><dd></dd><dt><strong>%(more)s</strong></dt><dd></dd></dl>"
    assert list(properties(function(field("Parameters", body)))) == [
        "x1",
        "x2",
        "kwargs",
    ]


def test_warnings_are_told_with_the_exceptions() -> None:
    warns = field("Warns", "<dl><dt>RankWarning</dt><dd><p>Low rank.</p></dd></dl>")
    assert function(warns).documented.raises == (
        Raised(type="RankWarning", description="Low rank."),
    )


def test_other_fields_stay_in_the_notes_under_their_title() -> None:
    body = field("Character code", "<p><code>'b'</code></p>")
    body += field(
        "Variables",
        "<ul><li><p><strong>size</strong> (<em>int</em>) – The size.</p></li></ul>",
    )
    notes = "Character code: 'b'\n\nVariables: - size (int) – The size."
    assert function(body).documented.notes == notes


def test_versions_of_a_parameter_name_it() -> None:
    body = """<dl><dt><strong>x, y</strong><span class="classifier">int</span></dt><dd><p>Numbers.</p>
    <div class="versionadded"><p><span class="versionmodified added">New in version 1.5.</span></p></div>
    </dd><dt><strong>old</strong><span class="classifier">int, optional</span></dt><dd><p>Not used.</p>
    <div class="deprecated"><p><span class="versionmodified deprecated">Deprecated since version
    2.0: </span>Use x.</p></div></dd><dt><strong>z</strong></dt><dd><p>A number.</p>
    <div class="deprecated"><p><span class="versionmodified deprecated">Deprecated since version
    1.2: </span>Passing a list is deprecated.</p></div></dd></dl>"""
    whole = '<div class="versionchanged"><p><span class="versionmodified changed">Changed in '
    whole += "version 3.0: </span>Faster.</p></div>"
    found = function(whole + field("Parameters", body))
    schemas = properties(found)
    assert schemas["x"] == {"type": "integer", "description": "Numbers."}
    assert schemas["old"] == {
        "type": "integer",
        "description": "Not used.",
        "deprecated": True,
    }
    assert schemas["z"] == {"description": "A number."}
    assert found.documented.versions == (
        VersionNote(change="changed", version="3.0", description="Faster."),
        VersionNote(change="added", version="1.5", parameter="x"),
        VersionNote(change="added", version="1.5", parameter="y"),
        VersionNote(
            change="deprecated",
            version="2.0",
            description="Use x.",
            parameter="old",
        ),
        VersionNote(
            change="deprecated",
            version="1.2",
            description="Passing a list is deprecated.",
            parameter="z",
        ),
    )
    assert found.documented.deprecated == ""


def test_reads_the_tables_and_signatures_of_sphinx_1() -> None:
    found = read_object(
        """<dl class="function"><dt id="a.f"><code class="descclassname">a.</code><code
        class="descname">f</code><span class="sig-paren">(</span><em>goods</em>, <em>least=0</em>, <em>*</em>,
        <em>most=None</em><span class="sig-paren">)</span> &#x2192; dict<a class="reference internal"
        href="_modules/a.html"><span class="viewcode-link">[source]</span></a></dt>
        <dd><p>Count goods.</p><table class="docutils field-list" frame="void" rules="none">
        <tbody valign="top"><tr class="field-odd field"><th class="field-name">Parameters:</th>
        <td class="field-body"><ul class="first simple"><li><strong>goods</strong> (<em>list</em><em>[</em><em>str</em><em>]
        or </em><em>None</em>) – What to count.</li><li><strong>most</strong> (<em>int</em><em>,
        </em><em>optional</em>) – <p>The most.</p><div class="versionadded">
        <p><span class="versionmodified">New in version 1.5.</span></p></div></li></ul></td></tr>
        <tr class="field-even field"><th class="field-name" colspan="2">Raises a thing:</th></tr>
        <tr class="field-even field"><td>&#160;</td><td class="field-body"><p class="first">x</p></td></tr>
        </tbody></table><dl class="method"><dt id="a.f.g"><code class="descname">g</code></dt>
        <dd><p>Another.</p></dd></dl></dd></dl>"""
    )
    assert found.signature == "(goods, least=0, *, most=None) -> dict"
    assert found.documented.summary == "Count goods."
    assert found.documented.description == ""
    assert list(properties(found)) == ["goods", "least", "most"]
    assert required(found) == ["goods"]
    assert found.documented.returns == (Returned(type="dict"),)
    assert found.documented.versions == (
        VersionNote(change="added", version="1.5", parameter="most"),
    )


def test_a_request_has_the_parameters_of_its_path_and_its_query() -> None:
    found = read_object(
        """<dl class="http get"><dt class="sig sig-object http" id="a.f"><span class="sig-name descname"><span
        class="pre">GET</span> </span><span class="sig-name descname">/users/</span><span
        class="sig-paren">(</span><span class="property">int: </span><em class="sig-param">user_id</em><span
        class="sig-paren">)</span></dt><dd><p>The user's posts.</p><dl class="field-list simple">
        <dt class="field-odd">Query Parameters<span class="colon">:</span></dt><dd class="field-odd"><ul>
        <li><p><strong>page[size]</strong> (<em>int</em>) – How many.</p></li></ul></dd>
        <dt class="field-even">Status Codes:</dt><dd class="field-even"><ul><li><p><a href="x">200 OK</a> –
        no error</p></li></ul></dd></dl></dd></dl>""",
        role="get",
    )
    assert found.kind == "operation"
    assert found.signature == ""
    assert properties(found) == {
        "user_id": {"type": "integer"},
        "page[size]": {"type": "integer", "description": "How many."},
    }
    assert required(found) == ["user_id"]
    assert found.documented.notes == "Status Codes: - 200 OK – no error"
