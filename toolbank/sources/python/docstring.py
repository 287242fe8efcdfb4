"""A docstring read into the fields of a tool, whatever its style and however broken."""

import inspect
import re
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from numpydoc.docscrape import NumpyDocString

from toolbank.bank.records import Raised, Returned, SeeAlso
from toolbank.sources.documented import Documented, split_summary
from toolbank.sources.python.fieldlist import has_fields, read_fields
from toolbank.sources.python.google import has_google_sections, read_google
from toolbank.sources.python.markup import directive_text, inline, plain, plain_line
from toolbank.sources.python.versionnotes import read_version_notes
from toolbank.sources.schema.parameters import Parameter

_UNDERLINED = re.compile(r"^(?P<title>\S.*)\n(?:-{3,}|={3,})[ \t]*$", re.M)
_SIGNATURE = re.compile(r"[\w., ]*[\w.]\(.*\)(?:\s*->.*)?", re.S)
_CLOSE_COLON = re.compile(
    r"(?P<names>\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*):\s*(?P<type>.*)", re.S
)
_SAYS_DEPRECATED = re.compile(r"(?:[\w.]+ (?:is|was|has been) )?deprecated\b", re.I)


def read_docstring(text: str | None) -> Documented:
    """Read a numpydoc, Google-style, field-list or plain docstring; never raises.

    numpydoc's reference parser reads numpydoc. A docstring that it refuses is read section
    by section, and only the sections that it refuses are lost.
    """
    text = inspect.cleandoc(text or "")
    if not text:
        return Documented()
    text = _untitled(text)
    opening = text[: match.start()] if (match := _UNDERLINED.search(text)) else text
    if _UNDERLINED.search(text):
        documented = _from_sections(_numpydoc_sections(text))
    elif has_google_sections(text):
        documented = read_google(text)
    elif has_fields(text):
        documented = read_fields(text)
    else:
        documented = Documented()
    if documented.prose is not None:
        opening = documented.prose
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
        prose=None,
    )


def _untitled(text: str) -> str:
    """The text whose title, underlined as modules have it, became its first paragraph."""
    title = re.match(r"(?:={3,}\n)?(?P<title>\S.*)\n={3,}[ \t]*\n", text)
    if not title:
        return text
    words = inline(title["title"])
    name_only = " " not in words.strip()
    return ("" if name_only else f"{words}\n\n") + text[title.end() :].lstrip("\n")


def _opening(text: str) -> tuple[str, str, str]:
    """Signature line, summary and extended summary of what stands before the sections."""
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
    try:
        return _parse(text)
    except Exception:  # numpydoc documents no set of exceptions
        sections: dict[str, Any] = {}
        for piece in _pieces(text):
            try:
                parsed = _parse(piece)
            except Exception:  # noqa: S112 - a section that can't be read is left out
                continue
            for name, value in parsed.items():
                if value and name not in sections:
                    sections[name] = value
        return sections


def _parse(text: str) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dict(NumpyDocString(text).items())


def _pieces(text: str) -> list[str]:
    starts = [match.start() for match in _UNDERLINED.finditer(text)]
    bounds = [*starts, len(text)]
    return [text[start:end] for start, end in zip(starts, bounds[1:], strict=False)]


def _from_sections(sections: dict[str, Any]) -> Documented:
    parameters = [
        parameter
        for section in ("Parameters", "Other Parameters")
        for entry in sections.get(section) or ()
        for parameter in _parameters(entry)
    ]
    returns = [
        Returned(
            name=inline(entry.name),
            type=inline(entry.type),
            description=plain_line("\n".join(entry.desc)),
        )
        for section in ("Returns", "Yields")
        for entry in sections.get(section) or ()
    ]
    raises = [
        Raised(
            type=inline(entry.name or entry.type),
            description=plain_line("\n".join(entry.desc)),
        )
        for section in ("Raises", "Warns")
        for entry in sections.get(section) or ()
    ]
    return Documented(
        parameters=tuple(parameters),
        returns=tuple(returns),
        raises=tuple(raises),
        notes=plain("\n".join(sections.get("Notes") or ())),
        examples="\n".join(sections.get("Examples") or ()).strip(),
        see_also=_see_also(sections.get("See Also") or ()),
    )


def _parameters(entry: Any) -> list[Parameter]:
    """One entry, such as "x1, x2 : array_like", as a parameter for each of its names.

    numpydoc's parser wants a blank before the colon, and takes "copy: bool" for a name.
    """
    description = plain_line("\n".join(entry.desc))
    header, classifier = entry.name.replace("\\", ""), entry.type
    if close := _CLOSE_COLON.fullmatch(header):
        header = close["names"]
        classifier = " : ".join(filter(None, (close["type"], classifier)))
    return [
        Parameter(name=name, classifier=inline(classifier), description=description)
        for name in re.split(r"\s*,\s*", header)
        if re.fullmatch(r"\*{0,2}\w+", name)
    ]


def _see_also(entries: Sequence[Any]) -> tuple[SeeAlso, ...]:
    found: dict[str, SeeAlso] = {}
    for names, description in entries:
        line = plain_line("\n".join(description))
        for name, _role in names:
            if name not in found:
                found[name] = SeeAlso(name=name, description=line)
    return tuple(found.values())
