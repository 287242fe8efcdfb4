import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tests.corpus_files import corpus_files
from tests.sources.cases import read_cases
from tests.sources.sphinx_server import PAGE, described, pack_inventory, signed
from toolbank.bank.records import Tool
from toolbank.sources import site
from toolbank.sources.site import Objects, Site, matches
from toolbank.sources.sphinx.inventory import INVENTORY_HEAD, read_inventory, select
from toolbank.sources.sphinx.pages.fields import read_syntax
from toolbank.sources.sphinx.pages.page import Page
from toolbank.sources.typetext import is_optional, schema_of
from toolbank.system.errors import InputError

SITE = Site(
    base_url="https://sample.example/",
    objects=Objects(roles=("function", "module")),
    tables=("*.html",),
)
SIGNS = st.characters(exclude_characters="<>&\0", exclude_categories=["Cs", "Cc"])
WORDS = st.text(SIGNS)
PYTHON_ROLES = st.sampled_from(site.ROLES["py"])
FORMS = [
    (title.partition(": ")[2].partition(" ")[0], html)
    for file in corpus_files("sphinx")
    for title, html in read_cases(file).items()
]


def check_tool(found):
    """What was read can be kept as a tool: a valid schema, and text without markup's remains."""
    if found is None or found.kind is None:
        return
    documented = found.documented
    tool = documented.as_tool("x", found.kind, found.signature, documented.parameters)
    Draft202012Validator.check_schema(tool.parameters)
    assert Tool.model_validate_json(tool.model_dump_json()) == tool
    assert "\n" not in tool.summary
    assert "\\u0000" not in json.dumps(tool.model_dump())


@given(st.binary() | st.binary().map(lambda data: INVENTORY_HEAD + b"\n\n\n\n" + data))
def test_any_bytes_are_an_inventory_or_an_input_error(data):
    try:
        read_inventory(data, "https://sample.example/objects.inv")
    except InputError as error:
        assert "https://sample.example/objects.inv" in str(error)


NAMES = st.text("abc._", min_size=1)
ROLES = st.sampled_from(["py:function", "py:method", "std:doc", "c:macro"])
URIS = st.sampled_from(["p.html#$", "p.html#q", "../p.html", "http://x/p", "/p", "$"])


@given(st.lists(st.tuples(NAMES, ROLES, URIS), min_size=1))
def test_entries_aliases_and_skipped_add_up_to_all(objects):
    lines = "".join(f"{name} {role} 1 {uri} -\n" for name, role, uri in objects)
    inventory = read_inventory(pack_inventory(lines), "https://sample.example/")
    scope = select(inventory, SITE)
    entries = scope.entries.values()
    parted = [item for entry in entries for item in entry.objects]
    for left_out in scope.left_out.values():
        parted.extend(left_out)
    assert len(inventory.objects) == len(objects)
    assert sorted(map(str, parted)) == sorted(map(str, inventory.objects))
    assert all(len(entry.objects) == 1 + len(entry.aliases) for entry in entries)
    assert all({"..", "http:"}.isdisjoint(entry.page.split("/")) for entry in entries)


@given(WORDS)
def test_words_stay_words(text):
    body = described("a.f", f"<p>{text}</p>")
    found = Page(PAGE.format(body), "p.html").read("a.f", "function")
    assert found is not None
    documented = found.documented
    read = f"{documented.summary} {documented.description}"
    assert read.split() == text.split()


@given(st.text("ab/", min_size=1))
def test_a_path_fits_itself_and_a_star_stays_in_its_folder(path):
    assert matches(path, (path,))
    assert matches(path, ("*",)) == ("/" not in path)


@pytest.mark.parametrize("sign", "(,; [{'\"|*")
def test_a_type_of_one_sign_over_and_over_is_read_at_once(sign):
    assert not is_optional(sign * 300_000)
    Draft202012Validator.check_schema(schema_of(sign * 300_000))


SYNTAX = st.sampled_from(
    (
        *("client.f(", ")", "A=", "'string'", "'x'|'y'", "[", "]", "{", "}", ":", ","),
        *("...", "123", "True|False", "datetime(2015, 1, 1)", "b'bytes'", "\n"),
        *("# note", "'", "|"),
    )
)


@given(st.lists(SYNTAX | WORDS, max_size=40).map("".join))
def test_any_request_syntax_gives_a_valid_schema(text):
    Draft202012Validator.check_schema(read_syntax(text))


@given(st.sampled_from("([{'\"|,=:#"), st.integers(1, 3000))
def test_syntax_of_one_sign_over_and_over_is_read(sign, times):
    Draft202012Validator.check_schema(read_syntax(f"f(A={sign * times}"))


LINES = st.sampled_from(
    (
        *("a.f py:function 1 p.html#$ -", "a b c py:function 1 p.html#$ -", "no line"),
        *("", "a py:function x p.html#$ -", "a py 1 p.html#$ -", "a py:function 1"),
        *(" ", "#", "Box::put cpp:function 1 p.html#_CPPv4$ -"),
        *("a py:function -1 p.html# a b", "\0"),
    )
)


@given(st.lists(LINES | WORDS, max_size=20))
def test_lines_that_are_none_leave_the_others(lines):
    good = "first py:function 1 p.html#$ -"
    text = "\n".join([good, *lines, "last py:function 1 p.html#$ -\n"])
    inventory = read_inventory(pack_inventory(text), "https://sample.example/")
    names = [item.name for item in inventory.objects]
    assert names[0] == "first"
    assert names[-1] == "last"


@given(st.data())
def test_an_inventory_with_a_few_bytes_changed_is_read_or_told(data):
    whole = pack_inventory(
        "".join(f"a.f{n} py:function 1 p.html#$ -\n" for n in range(50))
    )
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(damaged) - 1))
        damaged[place] = data.draw(st.integers(0, 255))
    try:
        inventory = read_inventory(bytes(damaged), "https://sample.example/")
    except InputError:
        return
    assert len(inventory.objects) <= 50


TAGS = st.sampled_from(
    (
        *("p", "div", "span", "em", "strong", "code", "a", "ul", "li", "dl", "dt"),
        *("dd", "pre", "table", "tr", "td", "th", "h3", "section", "blockquote", "br"),
        *("details", "x-y"),
    )
)
ATTRIBUTES = st.sampled_from(
    (
        *("", "class", "class=''", "class='field-list'", "class='rubric'"),
        *("class='classifier'", "class='admonition seealso'", "class='versionadded'"),
        *("class='sig-param'", "class='sig sig-object py' id='a.g'"),
        *("class='sig-paren'", "class='descname'", "id", "id=''", "href", "href='#a'"),
        *("class='versionmodified'", "title='a.b'"),
    )
)
LABELS = st.sampled_from(
    (
        *("Parameters:", "Returns", "Return type:", "Raises:", "param x:"),
        *("Bases: object", "x (int) \u2013 text", "Request Syntax", "Examples"),
        *("New in version 1.2:", "[1]", ">>> f(1)", "(", ")", "*args, **kwargs", "x="),
        *("Response Structure", "(dict) --"),
    )
)
PIECES = st.builds("<{} {}>".format, TAGS, ATTRIBUTES) | TAGS.map("</{}>".format)
TREES = st.recursive(
    LABELS | WORDS,
    lambda inner: st.tuples(TAGS, ATTRIBUTES, st.lists(inner, max_size=4)).map(
        lambda node: f"<{node[0]} {node[1]}>{''.join(node[2])}</{node[0]}>"
    ),
    max_leaves=30,
)


@given(st.lists(PIECES | LABELS | WORDS, max_size=30))
def test_any_body_is_read_without_markup(parts):
    body = described("a.f", "".join(parts), signed("x", "*y"))
    found = Page(PAGE.format(body), "p.html").read("a.f", "function")
    assert found is not None
    assert found.signature == "(x, *y)"
    documented = found.documented
    texts = [documented.summary, documented.description, documented.notes]
    texts += [parameter.description for parameter in documented.parameters]
    assert not any("<p" in text or "\0" in text for text in texts)
    assert "\n" not in documented.summary


@given(st.lists(TREES, max_size=5), PYTHON_ROLES)
def test_any_nest_of_tags_makes_a_tool(trees, role):
    body = described("a.f", "".join(trees), signed("x", "*y", "z=1"))
    page = Page(PAGE.format(body), "p.html")
    page.table_targets()
    for anchor in ("a.f", "a.g", ""):
        check_tool(page.read(anchor, role))


@given(st.sampled_from(FORMS), st.data())
def test_a_page_with_pieces_cut_and_moved_makes_a_tool(form, data):
    anchor, body = form
    html = PAGE.format(body)
    for _ in range(data.draw(st.integers(1, 6))):
        start = data.draw(st.integers(0, len(html)))
        end = min(len(html), start + data.draw(st.integers(0, 80)))
        target = data.draw(st.integers(0, len(html)))
        piece = html[start:end] * data.draw(st.sampled_from([1, 1, 30]))
        html = html[:start] + html[end:]
        html = html[:target] + data.draw(st.sampled_from(["", piece])) + html[target:]
    check_tool(Page(html, "p.html").read(anchor, "function"))
