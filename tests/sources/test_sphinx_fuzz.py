"""Damaged inventories and pages: told or read, never a crash."""

from __future__ import annotations

import zlib

from hypothesis import given
from hypothesis import strategies as st

from tests.sources.sphinx_server import PAGE, described, signed
from toolbank.errors import InputError
from toolbank.sources.sphinx.inventory import INVENTORY_HEAD, read_inventory, select
from toolbank.sources.sphinx.page import Page
from toolbank.sources.sphinx.site import Objects, Site, matches

SITE = Site(
    base_url="https://sample.example/",
    objects=Objects(roles=("function", "module")),
    tables=("*.html",),
)
WORDS = st.text(
    st.characters(exclude_characters="<>&\0", exclude_categories=["Cs", "Cc"])
)
PIECES = st.sampled_from(
    [
        "<p>",
        "</p>",
        "<dl class='field-list'>",
        "<dl>",
        "</dl>",
        "<dt>Parameters:",
        "<dt>Returns:",
        "<dt><strong>x, *y</strong><span class='classifier'>int, optional</span>",
        "<dd>",
        "</dd>",
        "<ul><li>",
        "</ul>",
        "<p class='rubric'>Examples</p>",
        "<div class='admonition seealso'>",
        "<div class='deprecated'>",
        "<pre>",
        "</div>",
        "<a href='#r'>[1]</a>",
        "<span class='math'>\\(x\\)</span>",
        "<table><tr><td>",
        "<!-- ",
        "&nbsp;&lt;",
        "&#0;",
    ]
)


def packed(lines: str) -> bytes:
    head = INVENTORY_HEAD + b"\n# Project: x\n# Version: 1\n# compressed with zlib\n"
    return head + zlib.compress(lines.encode())


@given(st.binary() | st.binary().map(lambda data: INVENTORY_HEAD + b"\n\n\n\n" + data))
def test_any_bytes_are_an_inventory_or_an_input_error(data: bytes) -> None:
    try:
        read_inventory(data, "https://sample.example/objects.inv")
    except InputError as error:
        assert "https://sample.example/objects.inv" in str(error)


NAMES = st.text("abc._", min_size=1)
ROLES = st.sampled_from(["py:function", "py:method", "std:doc", "c:macro"])
URIS = st.sampled_from(["p.html#$", "p.html#q", "../p.html", "http://x/p", "/p", "$"])


@given(st.lists(st.tuples(NAMES, ROLES, URIS), min_size=1))
def test_entries_aliases_and_skipped_add_up_to_all(
    objects: list[tuple[str, str, str]],
) -> None:
    lines = "".join(f"{name} {role} 1 {uri} -\n" for name, role, uri in objects)
    inventory = read_inventory(packed(lines), "https://sample.example/")
    scope = select(inventory, SITE)
    entries = scope.entries.values()
    parted = [item for entry in entries for item in entry.objects]
    for left_out in scope.left_out.values():
        parted.extend(left_out)
    assert len(inventory.objects) == len(objects)
    assert sorted(map(str, parted)) == sorted(map(str, inventory.objects))
    assert all(len(entry.objects) == 1 + len(entry.aliases) for entry in entries)
    assert all({"..", "http:"}.isdisjoint(entry.page.split("/")) for entry in entries)


@given(st.lists(PIECES | WORDS, max_size=30))
def test_any_body_is_read_without_markup(parts: list[str]) -> None:
    body = described("a.f", "".join(parts), signed("x", "*y"))
    found = Page(PAGE.format(body), "p.html").read("a.f", "function")
    assert found is not None
    assert found.signature == "(x, *y)"
    documented = found.documented
    texts = [documented.summary, documented.description, documented.notes]
    texts += [parameter.description for parameter in documented.parameters]
    assert not any("<p" in text or "\0" in text for text in texts)
    assert "\n" not in documented.summary


@given(WORDS)
def test_words_stay_words(text: str) -> None:
    body = described("a.f", f"<p>{text}</p>")
    found = Page(PAGE.format(body), "p.html").read("a.f", "function")
    assert found is not None
    documented = found.documented
    read = f"{documented.summary} {documented.description}"
    assert read.split() == text.split()


@given(st.text("ab/", min_size=1))
def test_a_path_fits_itself_and_a_star_stays_in_its_folder(path: str) -> None:
    assert matches(path, (path,))
    assert matches(path, ("*",)) == ("/" not in path)
