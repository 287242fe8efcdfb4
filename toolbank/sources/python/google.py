"""Google-style docstrings: "Args:", "Returns:", ... with indented bodies."""

import re
import textwrap
from collections.abc import Iterator

from toolbank.bank.records import Raised, Returned
from toolbank.sources.documented import Documented
from toolbank.sources.python.markup import inline, plain, plain_line
from toolbank.sources.schema.parameters import Parameter

_HEADER = re.compile(
    r"^(?P<title>Args|Arguments|Parameters|Keyword Args|Keyword Arguments|Returns|Return|"
    r"Yields|Raises|Examples?|Notes?|Attributes|Todo|References|See Also|Warnings?):[ \t]*$\n"
    r"(?=(?:[ \t]*\n)*[ \t]+\S)",
    re.M,
)
_ENTRY = re.compile(
    r"(?P<name>\*{0,2}\w+)\s*(?:\((?P<type>[^()]*(?:\([^()]*\)[^()]*)*)\))?\s*:\s*(?P<text>.*)",
    re.S,
)
_RAISED = re.compile(r"(?P<type>[\w.]+(?:\s*,\s*[\w.]+)*)\s*:\s+(?P<text>.+)", re.S)
_RETURN = re.compile(r"(?P<type>[\w.\[\], |]+):\s+(?P<text>.+)", re.S)


def has_google_sections(text: str) -> bool:
    """Whether a docstring (dedented) has a section of this style."""
    return bool(_HEADER.search(text))


def read_google(text: str) -> Documented:
    """Read the sections; what stands outside them is the prose."""
    prose: list[str] = []
    bodies: dict[str, str] = {}
    position = 0
    for match in _HEADER.finditer(text):
        if match.start() < position:
            continue
        prose.append(text[position : match.start()])
        position = _body_end(text, match.end())
        title = match["title"].lower().removesuffix("s")
        bodies.setdefault(title, textwrap.dedent(text[match.end() : position]).strip())
    prose.append(text[position:])
    parameters = [
        Parameter(
            name=entry["name"],
            classifier=inline(entry["type"] or ""),
            description=plain_line(entry["text"]),
        )
        for title in ("arg", "argument", "parameter", "keyword arg", "keyword argument")
        for entry in _entries(bodies.get(title, ""))
    ]
    returned = bodies.get("return") or bodies.get("yield")
    return Documented(
        parameters=tuple(parameters),
        returns=(_returned(returned),) if returned else (),
        raises=tuple(_raised(bodies.get("raise", ""))),
        notes=plain(bodies.get("note", "")),
        examples=bodies.get("example", ""),
        prose="\n\n".join(prose),
    )


def _body_end(text: str, start: int) -> int:
    """Where the indented lines that begin at `start` end."""
    position = start
    for line in text[start:].splitlines(keepends=True):
        if line.strip() and not line[0].isspace():
            break
        position += len(line)
    return position


def _entries(body: str) -> Iterator[re.Match[str]]:
    """The entries "name (type): text" of a body; indented lines go on with an entry."""
    for item in re.split(r"\n(?=\S)", body):
        match = _ENTRY.fullmatch(item.strip())
        if match:
            yield match


def _raised(body: str) -> Iterator[Raised]:
    for item in re.split(r"\n(?=\S)", body):
        if match := _RAISED.fullmatch(item.strip()):
            yield Raised(type=match["type"], description=plain_line(match["text"]))
        elif item.strip():
            yield Raised(type="", description=plain_line(item))


def _returned(body: str) -> Returned:
    match = _RETURN.fullmatch(body)
    if match:
        return Returned(
            type=match["type"].strip(), description=plain_line(match["text"])
        )
    return Returned(description=plain_line(body))
