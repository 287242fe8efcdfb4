"""Text of a page's elements, by BeautifulSoup and html5lib."""

import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from bs4 import BeautifulSoup, NavigableString, PageElement, Tag
from reading import Texts, condensed, tight

VERSIONS = {
    "versionadded": "added",
    "versionchanged": "changed",
    "deprecated": "deprecated",
    "versionremoved": "removed",
}


def read_page(path: Path) -> BeautifulSoup:
    return BeautifulSoup(path.read_bytes(), "html5lib", from_encoding="utf-8")


def classes(element: PageElement) -> set[str]:
    return set(element.get("class") or ()) if isinstance(element, Tag) else set()


def elements(parent: Tag) -> list[Tag]:
    return [child for child in parent.children if isinstance(child, Tag)]


def plain(element: PageElement) -> str:
    """The text of an element on one line, without the mark that links to a heading."""
    if isinstance(element, NavigableString):
        return " ".join(element.split())
    parts = [
        string
        for string in element.find_all(string=True)
        if not any("headerlink" in classes(parent) for parent in string.parents)
    ]
    return " ".join("".join(parts).split())


def is_version_note(element: PageElement) -> bool:
    return isinstance(element, Tag) and bool(classes(element) & set(VERSIONS))


def is_title(element: PageElement) -> bool:
    return isinstance(element, Tag) and "admonition-title" in classes(element)


def is_mark(element: PageElement) -> bool:
    """Whether this is the number of a footnote or of a work cited, there or here."""
    if not isinstance(element, Tag):
        return False
    bracketed = bool(re.fullmatch(r"\[\w+\]", plain(element)))
    return bracketed and (element.name == "a" or "label" in classes(element))


def texts(nodes: Iterable[PageElement], exact: bool = False) -> Texts:
    """The condensed text of the nodes, with and without version notes, titles of notes, footnote marks."""
    nodes = list(nodes)
    optional = (is_version_note, is_title, is_mark)
    shortened = tight if exact else condensed
    return frozenset(
        shortened("".join(_kept(node, left_out) for node in nodes))
        for count in range(len(optional) + 1)
        for left_out in itertools.combinations(optional, count)
    )


def _kept(node: PageElement, left_out: Sequence[Callable[[PageElement], bool]]) -> str:
    if isinstance(node, NavigableString):
        return "" if type(node) is not NavigableString else str(node)
    assert isinstance(node, Tag)
    if any(is_unchanged(node) for is_unchanged in left_out):
        return ""
    if classes(node) & {"headerlink", "backrefs"} or node.name in ("script", "style"):
        return ""
    return "".join(_kept(child, left_out) for child in node.children)


def version_notes(
    node: Tag, parameter: str, skipped: Iterable[Tag] = ()
) -> dict[tuple[str, str, str], Texts]:
    """(change, version, parameter) and the text of all notes in a node, `skipped` parts left out."""
    left = {id(part) for part in skipped}
    found: dict[tuple[str, str, str], Texts] = {}
    for mark in node.select("span.versionmodified"):
        if any(id(parent) in left for parent in mark.parents):
            continue
        note = next(parent for parent in mark.parents if is_version_note(parent))
        change = next(VERSIONS[name] for name in classes(note) if name in VERSIONS)
        said = re.search(r"version\s+(.+?)[\s.:]*$", plain(mark))
        version = said.group(1) if said else ""
        head = condensed(plain(mark))
        found[change, version, parameter] = frozenset(
            text.removeprefix(head) for text in texts(elements(note))
        )
    return found
