"""Docstrings with reStructuredText field lists: ":param x: ...", ":returns: ..."."""

import re

from toolbank.bank.records import Raised, Returned
from toolbank.sources.documented import Documented
from toolbank.sources.python.markup import inline, plain_line
from toolbank.sources.schema.parameters import Parameter

_FIELD = re.compile(
    r"^:(?P<kind>param|parameter|arg|argument|keyword|kwarg|type|returns?|rtype|raises?)"
    r"(?P<argument>[ \t][^:\n]*)?:(?P<text>.*(?:\n(?:[ \t]+\S.*|[ \t]*(?=\n[ \t]+\S)))*)",
    re.M,
)
_NAMED = frozenset({"param", "parameter", "arg", "argument", "keyword", "kwarg"})


def has_fields(text: str) -> bool:
    """Whether a docstring (dedented) has a field of this style."""
    return bool(_FIELD.search(text))


def read_fields(text: str) -> Documented:
    """Read the fields; what stands outside them is the prose."""
    types: dict[str, str] = {}
    described: dict[str, str] = {}
    raised: list[Raised] = []
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
        elif field["kind"].startswith("raise"):
            raised.append(Raised(type=inline(" ".join(words)), description=line))
        elif field["kind"].startswith("return"):
            returned = returned or line
        elif field["kind"] == "rtype":
            returned_type = returned_type or line
    has_returned = bool(returned or returned_type)
    return Documented(
        parameters=tuple(
            Parameter(name=name, classifier=types.get(name, ""), description=line)
            for name, line in described.items()
        ),
        returns=(Returned(type=returned_type, description=returned),)
        if has_returned
        else (),
        raises=tuple(raised),
        prose=_FIELD.sub("", text),
    )
