"""What the notes on versions in an object's text say: added, changed, deprecated, removed."""

import re
from collections.abc import Iterable, Iterator, Mapping, Set

from selectolax.lexbor import LexborNode

from toolbank.bank.records import VersionChange, VersionNote
from toolbank.sources.documented import VERSION_CHANGES
from toolbank.sources.sphinx.pages.text import classes, is_members, line

_MARKED = frozenset({"em", "code", "strong", "cite", "tt"})
_OF_A_VALUE = re.compile(
    r"(?:passing|using|if|when|giving|setting|support|the default)\b", re.I
)
_VERSION = re.compile(r"\bversions? (?P<words>[^\s:,]+)|(?P<number>v?\d[\w.+-]*)", re.I)


def read_versions(
    body: LexborNode, owners: Mapping[int, tuple[str, ...]], names: Set[str]
) -> Iterator[VersionNote]:
    """The notes below an element in order, those of documented members left out.

    `owners` holds the parameters that an element (by `mem_id`) tells of; a note that begins with
    one of `names` is that parameter's.
    """
    for label in body.css(".versionmodified"):
        place = _place(label, body, owners)
        if place is None:
            continue
        box, change, parameters = place
        if parameters == ("",):
            parameters = (parameter_of(box, names),)
        match = _VERSION.search(label.text(deep=True))
        version = (match["words"] or match["number"]) if match else ""
        for parameter in parameters:
            yield VersionNote(
                change=change,
                version=version.rstrip("."),
                description=line(box),
                parameter=parameter,
            )


def deprecated_parameters(notes: Iterable[VersionNote]) -> set[str]:
    """The parameters that notes call deprecated, where it is not only one of their values."""
    return {
        note.parameter
        for note in notes
        if note.change == "deprecated" and not _OF_A_VALUE.match(note.description)
    }


def parameter_of(box: LexborNode, names: Set[str]) -> str:
    """The parameter that a note begins with, or tells only the name of; "" for none."""
    label = box.css_first(".versionmodified")
    node = label.next if label is not None else None
    while (
        node is not None and node.tag == "-text" and not node.text(deep=False).strip()
    ):
        node = node.next
    if node is None or node.tag not in _MARKED:
        return ""
    name = node.text(deep=True).strip()
    is_alone = line(box).rstrip(".") == name
    return name if name.isidentifier() and (name in names or is_alone) else ""


def _place(
    label: LexborNode, body: LexborNode, owners: Mapping[int, tuple[str, ...]]
) -> tuple[LexborNode, VersionChange, tuple[str, ...]] | None:
    """The note's element, its kind and its parameters ("" for none); None for a member's note."""
    box: LexborNode | None = None
    change: VersionChange | None = None
    parameters: tuple[str, ...] = ()
    node = label.parent
    while node is not None and node.mem_id != body.mem_id:
        if node.tag == "section" or (node.tag == "dl" and is_members(node)):
            return None
        if change is None:
            box = node
            found = classes(node)
            change = next(
                (VERSION_CHANGES[n] for n in VERSION_CHANGES if n in found), None
            )
        parameters = parameters or owners.get(node.mem_id, ())
        node = node.parent
    if box is None or change is None:
        return None
    return box, change, parameters or ("",)
