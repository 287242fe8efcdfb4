"""Version notes of docstrings: ".. versionadded:: 1.2" and its like."""

import re
from collections.abc import Iterator, Set

from toolbank.bank.records import VersionNote
from toolbank.sources.documented import VERSION_CHANGES
from toolbank.sources.python.markup import plain_line

_NOTE = re.compile(
    r"^(?P<indent>[ ]*)\.\.[ ]+(?P<kind>versionadded|versionchanged|deprecated|versionremoved)"
    r"::[ ]*(?P<version>\S+)(?P<text>.*(?:\n(?:(?P=indent)[ ]+\S.*|[ ]*(?=\n(?P=indent)[ ]+\S)))*)",
    re.M,
)
_OWNER = re.compile(
    r"(?::\w+ (?:[^:]* )?)?\*{0,2}(?P<names>\w+(?:, \w+)*)\s*(?:[:(]|$)"
)


def read_version_notes(text: str, parameters: Set[str]) -> Iterator[VersionNote]:
    """The notes of a docstring (dedented) in order; those in a parameter's text name it."""
    text = text.expandtabs()
    for note in _NOTE.finditer(text):
        for parameter in _owners(text[: note.start()], len(note["indent"]), parameters):
            yield VersionNote(
                change=VERSION_CHANGES[note["kind"]],
                version=note["version"].rstrip(":."),
                description=plain_line(note["text"].strip()),
                parameter=parameter,
            )


def _owners(before: str, depth: int, parameters: Set[str]) -> list[str]:
    """The parameters that the line above, which is less indented, names; "" for none."""
    for line in reversed(before.splitlines()):
        if line.strip() and len(line) - len(line.lstrip()) < depth:
            owner = _OWNER.match(line.strip())
            names = owner["names"].split(", ") if owner else []
            return [name for name in names if name in parameters] or [""]
    return [""]
