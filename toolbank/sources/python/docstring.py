"""Read a docstring into the fields of a tool, in every common style."""

import inspect
import itertools
import re
import textwrap
import warnings
from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from typing import Any

from numpydoc.docscrape import NumpyDocString

from toolbank.bank.records import RaisedException, ReturnValue, SeeAlso, VersionNote
from toolbank.sources.documented import (
    VERSION_CHANGES,
    Documented,
    read_entry,
    split_summary,
)

_DROPPED = (
    "versionadded|versionchanged|versionremoved|index|plot|image|figure|currentmodule|"
    "module|autosummary|toctree|deprecated|only|rubric|highlight|contents|automodule|math"
)
_ROLE = re.compile(r":[a-zA-Z][\w:+.-]*:`([^`]*)`")
_TITLED = re.compile(r"^([^<]*)<([^<>]*)>$")
_DIRECTIVE = re.compile(r"^(\s*)\.\.\s+(?:([\w:+-]+)::)?(.*)$")


def plain(text: str) -> str:
    """Return prose without inline markup and directives, one line per paragraph.

    Versions, plots and formulas are removed; notes and warnings keep their text. Indented blocks
    and lists keep their lines.
    """
    paragraphs = re.split(r"\n\s*\n", without_directives(text))
    return "\n\n".join(
        joined for paragraph in paragraphs if (joined := _paragraph(paragraph))
    )


def plain_line(text: str) -> str:
    """Return the text of `plain` as one line."""
    return " ".join(plain(text).split())


def inline(text: str) -> str:
    """Remove inline markup from a piece of prose."""
    text = _ROLE.sub(lambda match: _role_text(match[1]), text)
    text = re.sub(r"``(.+?)``", r"\1", text, flags=re.S)
    text = re.sub(r"`([^`]+)`_{0,2}", lambda match: _role_text(match[1]), text)
    text = re.sub(r"(?<![\w*])\*\*(?=\S)([^*\n]+?)(?<=\S)\*\*(?!\w)", r"\1", text)
    text = re.sub(r"(?<![\w*\\])\*(?=[^\s*])([^*\n]+?)(?<=\S)\*(?![\w*])", r"\1", text)
    text = re.sub(r"\s?\[[#\w.-]+\]_(?!\w)", "", text)
    text = re.sub(r"\|([A-Z]\w*)\|", r"\1", text)
    return re.sub(r"\\([*_`|])", r"\1", text)


def without_directives(text: str) -> str:
    """Remove directives that contain no prose, and the first lines of the others."""
    lines = text.expandtabs().splitlines()
    kept: list[str] = []
    position = 0
    while position < len(lines):
        match = _DIRECTIVE.match(lines[position])
        if not match:
            kept.append(lines[position])
            position += 1
            continue
        depth, name, rest = len(match[1]), match[2], match[3]
        end = _end(lines, position, depth)
        if name and not re.fullmatch(_DROPPED, name):
            body = lines[position + 1 : end]
            while body and re.match(r"\s+:[\w-]+:", body[0]):
                body.pop(0)
            kept.append("")
            if rest.strip() and not name.startswith(("code", "source")):
                kept.append(match[1] + rest.strip())
            kept.extend(
                textwrap.indent(textwrap.dedent("\n".join(body)), match[1]).splitlines()
            )
            kept.append("")
        position = end
    return "\n".join(kept)


def _end(lines: Sequence[str], position: int, depth: int) -> int:
    """The end of the directive at a position, whose body is indented more than `depth`."""
    for end in range(position + 1, len(lines)):
        if lines[end].strip() and _indent(lines[end]) <= depth:
            return end
    return len(lines)


def directive_text(text: str, name: str) -> str:
    """Return the text of the first unindented directive of that name, or ""."""
    lines = text.expandtabs().splitlines()
    for position, line in enumerate(lines):
        match = _DIRECTIVE.match(line)
        if match and match[2] == name and not match[1]:
            words = [match[3], *lines[position + 1 : _end(lines, position, 0)]]
            return plain_line("\n".join(word.strip() for word in words))
    return ""


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _role_text(content: str) -> str:
    titled = _TITLED.match(content)
    if titled and titled[1].strip():
        return titled[1].strip()
    target = titled[2] if titled else content
    if target.startswith("~"):
        return target[1:].rpartition(".")[2]
    return target.lstrip("!")


def _paragraph(text: str) -> str:
    lines = [line.rstrip() for line in text.strip("\n").splitlines()]
    lines = [line for line in lines if not re.fullmatch(r"\s*[=+|-]{3}[=+| -]*", line)]
    lines = [re.sub(r"^(\s*)\|(?=\s)|\|$", r"\1", line) for line in lines]
    if all(re.fullmatch(r"\W*", line) for line in lines):
        return ""
    if _indent(lines[0]) or lines[0].startswith(">>>"):
        return textwrap.dedent("\n".join(lines)).strip()
    body = re.sub(r"::$", ":", inline("\n".join(lines)))
    if any(re.match(r"\s*(?:[*+-]|\d+[.)])\s", line) for line in lines):
        return textwrap.dedent(body).strip()
    return " ".join(body.split())


_TITLES = (
    "Args|Arguments|Parameters|Keyword Args|Keyword Arguments|Returns|Return|"
    "Yields|Raises|Examples?|Notes?|Attributes|Todo|References|See Also|Warnings?"
)
_HEADER = re.compile(
    rf"^(?P<title>{_TITLES}):[ \t]*$\n(?=(?:[ \t]*\n)*[ \t]+\S)",
    re.M,
)
_ENTRY = re.compile(
    r"(?P<name>\*{0,2}\w+(?:=[^\s(:]+)?)\s*"
    r"(?:\((?P<type>[^()]*(?:\([^()]*\)[^()]*)*)\))?\s*:\s*(?P<text>.*)",
    re.S,
)
_RAISED = re.compile(r"(?P<type>[\w.]+(?:\s*,\s*[\w.]+)*)\s*:\s+(?P<text>.+)", re.S)
_RETURN = re.compile(r"(?P<type>[\w.\[\], |]+):\s+(?P<text>.+)", re.S)


def read_google(text: str) -> tuple[Documented, str]:
    """Read the sections of Google style; also return the text outside of them."""
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
        parameter
        for title in ("arg", "argument", "parameter", "keyword arg", "keyword argument")
        for entry in _entries(bodies.get(title, ""))
        for parameter in read_entry(
            entry["name"], inline(entry["type"] or ""), plain_line(entry["text"])
        )
    ]
    returned = bodies.get("return") or bodies.get("yield")
    documented = Documented(
        parameters=tuple(parameters),
        returns=(_returned(returned),) if returned else (),
        raises=tuple(_raised(bodies.get("raise", ""))),
        notes=plain(bodies.get("note", "")),
        examples=bodies.get("example", ""),
    )
    return documented, "\n\n".join(prose)


def _body_end(text: str, start: int) -> int:
    """The end of the indented lines that begin at `start`."""
    position = start
    for line in text[start:].splitlines(keepends=True):
        if line.strip() and not line[0].isspace():
            break
        position += len(line)
    return position


def _entries(body: str) -> Iterator[re.Match[str]]:
    """The entries "name (type): text" of a body; indented lines continue an entry."""
    for item in re.split(r"\n(?=\S)", body):
        if match := _ENTRY.fullmatch(item.strip()):
            yield match


def _raised(body: str) -> Iterator[RaisedException]:
    for item in re.split(r"\n(?=\S)", body):
        if match := _RAISED.fullmatch(item.strip()):
            yield RaisedException(
                type=match["type"], description=plain_line(match["text"])
            )
        elif item.strip():
            yield RaisedException(type="", description=plain_line(item))


def _returned(body: str) -> ReturnValue:
    if match := _RETURN.fullmatch(body):
        return ReturnValue(
            type=match["type"].strip(), description=plain_line(match["text"])
        )
    return ReturnValue(description=plain_line(body))


_FIELD = re.compile(
    r"^[:@](?P<kind>param|parameter|arg|argument|key|keyword|kwarg|kwparam|type|returns?|rtype"
    r"|yields?|raises?|except|exception|i?var|cvar|vartype|meta)"
    r"(?P<argument>[ \t][^:\n]*)?:(?P<text>.*(?:\n(?:[ \t]+\S.*|[ \t]*(?=\n[ \t]+\S)))*)",
    re.M,
)
_NAMED = frozenset(
    {"param", "parameter", "arg", "argument", "key", "keyword", "kwarg", "kwparam"}
)


def read_fields(text: str) -> tuple[Documented, str]:
    """Read a field list, if there is one; also return the text outside of it."""
    types: dict[str, str] = {}
    described: dict[str, str] = {}
    raised: list[RaisedException] = []
    returned = returned_type = ""
    for field in _FIELD.finditer(text):
        words = (field["argument"] or "").replace("\\", "").split()
        line = plain_line(field["text"].strip())
        if field["kind"] in _NAMED and words:
            described.setdefault(words[-1], line)
            if words[:-1]:
                types.setdefault(words[-1], " ".join(words[:-1]))
        elif field["kind"] == "type" and words:
            types.setdefault(words[-1], inline(line))
        elif field["kind"].startswith(("raise", "except")):
            raised.append(
                RaisedException(type=inline(" ".join(words)), description=line)
            )
        elif field["kind"].startswith(("return", "yield")):
            returned = returned or line
        elif field["kind"] == "rtype":
            returned_type = returned_type or line
    value = ReturnValue(type=returned_type, description=returned)
    documented = Documented(
        parameters=tuple(
            parameter
            for name, line in described.items()
            for parameter in read_entry(name, types.get(name, ""), line)
        ),
        returns=(value,) if returned or returned_type else (),
        raises=tuple(raised),
    )
    return documented, _FIELD.sub("", text)


_NOTE = re.compile(
    r"^(?P<indent>[ ]*)\.\.[ ]+(?P<kind>versionadded|versionchanged|deprecated|versionremoved)"
    r"::[ ]*(?P<version>\S+)(?P<text>.*(?:\n(?:(?P=indent)[ ]+\S.*|[ ]*(?=\n(?P=indent)[ ]+\S)))*)",
    re.M,
)
_OWNER = re.compile(
    r"(?::\w+ (?:[^:]* )?)?\*{0,2}(?P<names>\w+(?:, \w+)*)\s*(?:[:(]|$)"
)


def read_version_notes(text: str, parameters: Set[str]) -> Iterator[VersionNote]:
    """Yield the version notes of a dedented docstring, with the parameters they belong to."""
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
    """The parameters that the nearest less indented line above names, or [""]."""
    for line in reversed(before.splitlines()):
        if line.strip() and _indent(line) < depth:
            owner = _OWNER.match(line.strip())
            names = owner["names"].split(", ") if owner else []
            return [name for name in names if name in parameters] or [""]
    return [""]


_UNDERLINED = re.compile(r"^(?P<title>\S.*)\n(?:-{3,}|={3,})[ \t]*$", re.M)
_SIGNATURE = re.compile(r"[\w., ]*[\w.]\(.*\)(?:\s*->.*)?", re.S)
_SAYS_DEPRECATED = re.compile(r"(?:[\w.]+ (?:is|was|has been) )?deprecated\b", re.I)


def read_docstring(text: str | None) -> Documented:
    """Read a docstring in numpydoc, Google, field-list or plain style; never raises.

    If numpydoc's parser fails, each section is read by itself, and only broken ones are lost.
    """
    text = _clean(text or "")
    if not text:
        return Documented()
    text = _untitled(text)
    if underlined := _UNDERLINED.search(text):
        documented = _from_sections(_numpydoc_sections(text))
        opening = text[: underlined.start()]
    else:
        read = read_google if _HEADER.search(text) else read_fields
        documented, opening = read(text)
    signature, summary, description = _opening(opening)
    deprecated = directive_text(opening, "deprecated")
    if not deprecated and _SAYS_DEPRECATED.match(summary):
        deprecated = " ".join([summary, *description.split("\n\n")[:1]]).strip()
    names = {item.name.lstrip("*") for item in documented.parameters}
    return replace(
        documented,
        signature=signature,
        summary=summary,
        description=description,
        deprecated=deprecated,
        versions=tuple(read_version_notes(text, names)),
    )


def is_marked_private(text: str) -> bool:
    """Whether a docstring says `:meta private:`."""
    return re.search(r"^[ \t]*:meta private:", text, re.M) is not None


def _clean(text: str) -> str:
    """Remove the common indentation, except that of lines that belong to a section or field.

    Such lines are no common indentation if the first line is "Args:" or ":param x: ...".
    """
    cleaned = inspect.cleandoc(text)
    first, _, rest = cleaned.partition("\n")
    begins = re.match(rf"(?:{_TITLES}):[ \t]*$|:\w[^`]*:", first)
    follows = rest.lstrip("\n")[:1]
    if not begins or follows in ("", " ", ":", "-", "="):
        return cleaned
    return inspect.cleandoc(f"\n{text.lstrip()}")


def _untitled(text: str) -> str:
    """Turn the underlined title of a module's docstring into its first paragraph."""
    title = re.match(r"(?:={3,}\n)?(?P<title>\S.*)\n={3,}[ \t]*\n", text)
    if not title:
        return text
    words = inline(title["title"])
    name_only = " " not in words.strip()
    return ("" if name_only else f"{words}\n\n") + text[title.end() :].lstrip("\n")


def _opening(text: str) -> tuple[str, str, str]:
    """Signature line, summary and description of the text before the sections."""
    paragraphs = re.split(r"\n\s*\n", text.strip())
    signature = ""
    while paragraphs and _SIGNATURE.fullmatch(paragraphs[0].strip()):
        signature = signature or " ".join(paragraphs[0].split())
        paragraphs.pop(0)
    if paragraphs:
        first_line, _, rest = paragraphs[0].partition("\n")
        if rest.strip() and _SIGNATURE.fullmatch(first_line.strip()):
            signature = signature or first_line.strip()
            paragraphs[0] = rest
    prose = plain("\n\n".join(paragraphs))
    first, _, more = prose.partition("\n\n")
    summary, rest = split_summary(first)
    description = "\n\n".join(part for part in (rest, more) if part)
    return signature, summary, description.strip()


def _numpydoc_sections(text: str) -> dict[str, Any]:
    if whole := _parse(text):
        return whole
    sections: dict[str, Any] = {}
    starts = [match.start() for match in _UNDERLINED.finditer(text)]
    for start, end in itertools.pairwise([*starts, len(text)]):
        for name, value in _parse(text[start:end]).items():
            if value and name not in sections:
                sections[name] = value
    return sections


def _parse(text: str) -> dict[str, Any]:
    """The sections; none if the parser fails."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return dict(NumpyDocString(text).items())
        except Exception:  # numpydoc documents no set of exceptions
            return {}


def _from_sections(sections: dict[str, Any]) -> Documented:
    def entries(*titles: str) -> Iterator[tuple[Any, str]]:
        for title in titles:
            for entry in sections.get(title) or ():
                yield entry, plain_line("\n".join(entry.desc))

    parameters = [
        parameter
        for entry, description in entries("Parameters", "Other Parameters")
        for parameter in read_entry(
            entry.name.replace("\\", ""), inline(entry.type), description
        )
    ]
    returns = [
        ReturnValue(
            name=inline(entry.name), type=inline(entry.type), description=description
        )
        for entry, description in entries("Returns", "Yields")
    ]
    raises = [
        RaisedException(type=inline(entry.name or entry.type), description=description)
        for entry, description in entries("Raises", "Warns")
    ]
    return Documented(
        parameters=tuple(parameters),
        returns=tuple(returns),
        raises=tuple(raises),
        notes=plain("\n".join(sections.get("Notes") or ())),
        examples="\n".join(sections.get("Examples") or ()).strip(),
        see_also=_see_also(sections.get("See Also") or ()),
    )


def _see_also(entries: Sequence[Any]) -> tuple[SeeAlso, ...]:
    found: dict[str, SeeAlso] = {}
    for names, description in entries:
        line = plain_line("\n".join(description))
        for name, _role in names:
            found.setdefault(name, SeeAlso(name=name, description=line))
    return tuple(found.values())
