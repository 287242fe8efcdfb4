"""What the page of an object says outside of its field lists."""

from __future__ import annotations

import pytest

from tests.sources.sphinx_pages import (
    function,
    properties,
    read_object,
    required,
)
from toolbank.bank.records import Returned, SeeAlso, VersionNote
from toolbank.sources.sphinx.pages.page import Page, ShapeError

NAME = '<span class="sig-name descname">f</span>'


def signed(*terms: str, body: str = "<p>It is.</p>") -> str:
    listed = "".join(f"<dt {term}</dt>" for term in terms)
    return f'<dl class="py function">{listed}<dd>{body}</dd></dl>'


def test_a_signature_of_several_lines_is_read_whole() -> None:
    found = read_object(
        signed(
            f"""class="sig sig-object py" id="a.f">{NAME}<span class="sig-paren">(</span>
            <dl>
            <dd><em class="sig-param"><span class="n">goods</span>: <span class="n">list[str]</span></em>,</dd>
            <dd><em class="sig-param"><span class="n">mark</span>: <span class="n">str</span> = <span
            class="default_value">')'</span></em>,</dd>
            </dl>
            <span class="sig-paren">)</span> <span class="sig-return"><span class="sig-return-icon">&#x2192;</span>
            <span class="sig-return-typehint">dict[str, int]</span></span><a class="reference internal"
            href="x"><span class="viewcode-link">[source]</span></a>"""
        )
    )
    assert found.signature == "(goods: list[str], mark: str = ')') -> dict[str, int]"
    assert properties(found) == {
        "goods": {"type": "array", "items": {"type": "string"}},
        "mark": {"type": "string", "default": ")"},
    }
    assert required(found) == ["goods"]
    assert found.documented.returns == (Returned(type="dict[str, int]"),)


def test_quoted_and_repeated_annotations_are_types() -> None:
    found = function("<p>It is.</p>", "x: 'int'", "*args: str", "**options: Any")
    assert properties(found) == {
        "x": {"type": "integer"},
        "args": {"type": "array"},
        "options": {"type": "object"},
    }


def test_all_variants_of_a_signature_are_kept() -> None:
    first = f'class="sig sig-object py" id="a.f">{NAME}<span class="sig-paren">(</span>'
    first += '<em class="sig-param">stop</em><span class="sig-paren">)</span>'
    second = f'class="sig sig-object py">{NAME}<span class="sig-paren">(</span>'
    second += '<em class="sig-param">start</em>, <em class="sig-param">stop</em>'
    second += '<span class="sig-paren">)</span>'
    other = second.replace(">f<", ">g<").replace("start", "other")
    found = read_object(signed(first, second, other))
    assert found.signature == "(stop)\n(start, stop)"
    assert list(properties(found)) == ["stop", "start"]
    assert required(found) == ["stop"]
    assert found.documented.summary == "It is."


@pytest.mark.parametrize(
    ("role", "kind"),
    [
        ("property", "property"),
        ("attribute", "property"),
        ("staticmethod", "method"),
        ("exception", "class"),
        ("data", None),
    ],
)
def test_what_an_object_is(role: str, kind: str | None) -> None:
    page = signed(
        f"""class="sig sig-object py" id="a.f"><em class="property">abstract property </em>{NAME}<em
        class="property"><span class="p">:</span> <span class="pre">int</span></em>"""
    )
    found = read_object(page, role=role)
    assert found.kind == kind
    assert found.signature == ""
    assert found.documented.returns == (Returned(type="int"),)


def test_members_stay_out_of_a_class_and_are_read_by_their_own_anchor() -> None:
    page = """<dl class="py class"><dt class="sig sig-object py" id="a.C"><em class="property">class </em><span
    class="sig-name descname">C</span><span class="sig-paren">(</span><em class="sig-param">x</em><span
    class="sig-paren">)</span></dt><dd><p>Bases: <code>object</code></p><p>A price.</p>
    <div><p>In a box.</p><dl class="py method"><dt class="sig sig-object py" id="a.C.g"><span
    class="sig-name descname">g</span><span class="sig-paren">(</span><span class="sig-paren">)</span></dt>
    <dd><p>Another.</p><div class="versionadded"><p><span class="versionmodified added">Added in version
    2.1.</span></p></div></dd></dl></div></dd></dl>"""
    owner = read_object(page, "a.C", "class")
    assert owner.documented.summary == "A price."
    assert owner.documented.description == "In a box."
    assert owner.documented.notes == "Bases: object"
    assert owner.documented.versions == ()
    member = read_object(page, "a.C.g", "method")
    assert member.documented.summary == "Another."
    assert member.documented.versions == (VersionNote(change="added", version="2.1"),)


def test_anchors_beside_a_term_or_section_lead_to_it() -> None:
    term = f'class="sig sig-object py"><span id="old"></span>{NAME}'
    page = f"""<div class="section" id="x"><span class="target" id="module-a"></span><h1>A</h1>
    <p>All of it.</p><div class="section"><h2>More</h2><p>no</p></div>{signed(term)}</div>"""
    assert read_object(page, "old").documented.summary == "It is."
    assert read_object(page, "module-a", "module").documented.summary == "All of it."
    assert read_object(page, "document-api#old").documented.summary == "It is."
    assert Page(page, "p.html").read("module-a", "function") is None
    assert Page(page, "p.html").read("nowhere", "function") is None


def test_a_module_keeps_its_sections_of_prose() -> None:
    page = f"""<section id="module-a"><h1>A</h1><p>All of it.</p>
    <section id="speed"><h2>Speed</h2><p>Fast.</p><section id="more"><h3>More</h3><p>Very.</p></section></section>
    <section id="api"><h2>Functions</h2><p>These:</p>{signed(f'class="sig" id="a.f">{NAME}')}</section></section>"""
    found = read_object(page, "module-a", "module").documented
    assert found.summary == "All of it."
    assert found.notes == "Speed:\n\nFast.\n\nMore:\n\nVery."


def test_sections_keep_their_title_in_the_notes() -> None:
    body = """<p>It is.</p><p class="rubric">Notes</p><p>Exact.</p>
    <p class="rubric">References</p><div class="citation-list" role="list"><div class="citation" id="r1"
    role="doc-biblioentry"><span class="label"><span class="fn-bracket">[</span>1<span
    class="fn-bracket">]</span></span><p>A. Book, 1970.</p></div></div>
    <p class="rubric">Methods</p><table class="autosummary"><tbody><tr><td><p><a><code>g</code></a>()</p></td>
    <td><p>Another.</p></td></tr></tbody></table>
    <p class="rubric">Warnings</p><p>Slow.</p>"""
    assert function(body).documented.notes == (
        "Exact.\n\nReferences:\n\n[1] A. Book, 1970.\n\n"
        "Methods:\n\ng() | Another.\n\nWarnings:\n\nSlow."
    )


def test_formulas_tables_and_figures_are_told() -> None:
    body = r"""<p>It is.</p><div class="math notranslate nohighlight"><span class="eqno">(1)<a
    class="headerlink" href="#e">#</a></span>\[y = \frac{a}{b}
    + c\]</div><table><thead><tr><th>kind</th><th>speed</th></tr></thead><tbody><tr><td><p>one</p></td><td>
    <table><tr><td>2</td></tr></table></td></tr></tbody></table>
    <figure><img alt="../_images/plot.png" src="x"><figcaption><p>(<a>png</a>, <a>pdf</a>)</p></figcaption></figure>
    <img alt="A curve that falls" src="y">"""
    assert function(body).documented.description == (
        "y = \\frac{a}{b} + c\n\nkind | speed\none | 2\n\nA curve that falls"
    )


@pytest.mark.parametrize(
    "title",
    [
        '<p class="rubric">Examples</p>',
        "<h3>Examples</h3>",
        "<p><strong>Examples</strong></p>",
        "<p>Example:</p>",
    ],
)
def test_examples_are_found_under_any_title(title: str) -> None:
    body = f"<p>It is.</p>{title}<p>One:</p><pre>>>> f(1)\n1</pre>"
    documented = function(body).documented
    assert documented.examples == "One:\n\n>>> f(1)\n1"
    assert documented.description == ""


def test_code_in_the_text_is_an_example_where_there_is_no_other() -> None:
    code = '<div class="doctest highlight-default"><div class="highlight"><pre>>>> f(1)\n1</pre></div></div>'
    documented = function(f"<p>It is.</p>{code}").documented
    assert documented.examples == ">>> f(1)\n1"
    rubric = '<p class="rubric">Examples</p><p>None.</p>'
    assert function(f"<p>It is.</p>{code}{rubric}").documented.examples == "None."


def test_a_box_before_the_text_is_not_its_summary() -> None:
    box = '<div class="admonition note"><p class="admonition-title">Note</p><p>Be careful.</p></div>'
    documented = function(f"{box}<p>It is.</p><p>And so on.</p>").documented
    assert documented.summary == "It is."
    assert documented.description == "Be careful.\n\nAnd so on."
    assert function(box).documented.summary == "Be careful."


def test_a_box_that_ends_the_text_is_no_part_of_the_examples() -> None:
    box = '<div class="admonition note"><p class="admonition-title">Note</p><p>Be careful.</p>{}</div>'
    body = '<p class="rubric">Example</p><pre>>>> f(1)</pre>'
    apart = function(body + box.format("")).documented
    assert (apart.examples, apart.notes) == (">>> f(1)", "Note:\n\nBe careful.")
    within = function(body + box.format("<pre>>>> f(2)</pre>")).documented
    assert (within.examples, within.notes) == (
        ">>> f(1)\n\nBe careful.\n\n>>> f(2)",
        "",
    )


def test_see_also_in_every_form() -> None:
    body = """<div class="admonition seealso"><p class="admonition-title">See also</p>
    <dl><dt><a title="a.g"><code>g</code></a></dt><dd><p>Another.</p></dd></dl>
    <p><a title="a.h"><code>h()</code></a>, <code>k()</code></p>
    <p>Use <a title="a.m"><code>m()</code></a> for more.</p>
    <ul><li><p><code>n</code>: The last.</p></li></ul></div>"""
    assert function(body).documented.see_also == (
        SeeAlso(name="a.g", description="Another."),
        SeeAlso(name="a.h"),
        SeeAlso(name="k"),
        SeeAlso(name="a.m", description="Use m() for more."),
        SeeAlso(name="n", description="The last."),
    )


@pytest.mark.parametrize(
    ("html", "note"),
    [
        (
            '<div class="versionadded"><p><span class="versionmodified added">New in version '
            "1.7.0.</span></p></div>",
            VersionNote(change="added", version="1.7.0"),
        ),
        (
            '<div class="versionremoved"><p><span class="versionmodified removed">Removed in version '
            "4: </span>Use <code>g</code>.</p></div>",
            VersionNote(change="removed", version="4", description="Use g."),
        ),
        (
            '<div class="deprecated-removed"><p><span class="versionmodified">Deprecated since version '
            "3.8, will be removed in version 3.14: </span>Old.</p></div>",
            VersionNote(change="deprecated", version="3.8", description="Old."),
        ),
        (
            '<p class="versionchanged"><span class="versionmodified">Ge\u00e4ndert in Version 2.5:</span> '
            "Neu.</p>",
            VersionNote(change="changed", version="2.5", description="Neu."),
        ),
        (
            '<div class="versionadded"><p><span class="versionmodified added">3.8 \u7248\u672c\u52a0'
            "\u5165.</span></p></div>",
            VersionNote(change="added", version="3.8"),
        ),
    ],
)
def test_notes_on_versions(html: str, note: VersionNote) -> None:
    documented = function(f"{html}<p>It is.</p>").documented
    assert documented.versions == (note,)
    assert documented.summary == "It is."
    assert "Use" not in documented.description


def test_a_deprecated_function_says_so_even_without_words() -> None:
    html = '<div class="deprecated"><p><span class="versionmodified deprecated">Deprecated since '
    html += "version 2.2.</span></p></div>"
    documented = function(html).documented
    assert documented.deprecated == "Deprecated since version 2.2."
    assert documented.versions == (VersionNote(change="deprecated", version="2.2"),)


def test_code_that_comes_first_is_no_summary() -> None:
    code = '<div class="highlight-python"><div class="highlight"><pre>a = f()</pre></div></div>'
    documented = function(f"{code}<p>It is.</p>").documented
    assert documented.summary == "It is."
    assert documented.description == "a = f()"
    assert function(code).documented.summary == ""


def test_sections_with_headings_inside_a_body_are_read() -> None:
    body = """<p>It is.</p><section id="parameters"><h2>Parameters</h2><dl class="simple"><dt>url<span
    class="classifier">str</span></dt><dd><p>Where.</p></dd></dl></section>"""
    found = function(body, "url")
    assert properties(found) == {"url": {"type": "string", "description": "Where."}}


def test_code_beside_line_numbers_is_only_the_code() -> None:
    table = """<div class="highlight"><table class="highlighttable"><tr><td class="linenos"><div><pre>1
2</pre></div></td><td class="code"><div><pre>a = 1
b = 2</pre></div></td></tr></table></div>"""
    inline = '<pre><span class="linenos">1</span>a = 1\n<span class="linenos">2</span>b = 2</pre>'
    for html in (table, inline):
        assert function(f"<p>It is.</p>{html}").documented.description == "a = 1\nb = 2"


@pytest.mark.parametrize("nested", ["<div>", "<ul><li>", "<b id='{}'>", "<em>"])
def test_a_page_nested_without_end_fails_by_name_and_in_time(nested: str) -> None:
    deep = "".join(nested.format(number) for number in range(50_000))
    with pytest.raises(ShapeError):
        function(f"{deep}<p>x</p>" + "<p>y</p>" * 10_000)


@pytest.mark.parametrize(
    "html",
    [
        "<!--" + "</b>" * 40_000 + "-->" + "<b>" * 40_000,
        "".join(f"<b x='</b>{number}'>" for number in range(40_000)),
        "<p " + " ".join(f"a{number}=1" for number in range(40_000)) + ">",
        "<p " + " ".join(f'a{number}=">"' for number in range(40_000)) + ">",
    ],
)
def test_what_would_take_the_parser_minutes_is_refused(html: str) -> None:
    with pytest.raises(ShapeError):
        Page(html, "api.html")


def test_text_that_stands_below_an_empty_directive_is_its_own() -> None:
    below = "<p>Adds up.</p><p>More of it.</p>"
    page = Page(
        '<dl class="py function"><dt class="sig sig-object py" id="a.one">'
        '<code class="descname">one</code>(<em>x</em>)</dt><dd></dd></dl>'
        f"{below}<h3>Other</h3><p>Not of it.</p>"
        '<dl class="py function"><dt class="sig sig-object py" id="a.two">'
        '<code class="descname">two</code>(<em>x</em>)</dt><dd><p>Has text.</p></dd></dl>'
        "<p>Of neither.</p>",
        "api.html",
    )
    one, two = page.read("a.one", "function"), page.read("a.two", "function")
    assert one is not None
    assert two is not None
    assert (one.documented.summary, one.documented.description) == (
        "Adds up.",
        "More of it.",
    )
    assert (two.documented.summary, two.documented.description) == ("Has text.", "")
