"""Signatures as they are written in documentation."""

import re
from dataclasses import dataclass

from toolbank.sources.schema.literals import is_literal, literal
from toolbank.sources.schema.parameters import Parameter

_MAX_SIGNATURE = 10_000


@dataclass(frozen=True)
class Signature:
    """A signature's text, "(a, /, axis=None)", and its parameters in order."""

    text: str = ""
    parameters: tuple[Parameter, ...] = ()


def read_signature(line: str) -> Signature:
    """Read "f(x, /, out=None[, dtype])", "f([start,] stop)"; other text gives an empty one."""
    match = re.search(r"\(.*\)", line[:_MAX_SIGNATURE], re.S)
    if not match:
        return Signature()
    parameters: list[Parameter] = []
    names: set[str] = set()
    for text, is_bracketed in _arguments(match[0][1:-1]):
        name, has_default, default = (part.strip() for part in text.partition("="))
        name, _, annotation = (part.strip() for part in name.partition(":"))
        if not re.fullmatch(r"\*{0,2}[^\W\d]\w*", name) or name in names:
            continue
        names.add(name)
        value = literal(default)
        parameters.append(
            Parameter(
                name=name,
                classifier=annotation,
                default=value if is_literal(value) else None,
                required=not (has_default or is_bracketed or name.startswith("*")),
            )
        )
    text = " ".join(match[0][1:-1].split())
    return Signature(f"({text})", tuple(parameters))


def _arguments(text: str) -> list[tuple[str, bool]]:
    """The arguments between commas, and whether each stands in brackets for "optional".

    Such a bracket opens an argument or stands before a comma; any other is part of a value.
    """
    arguments: list[tuple[str, bool]] = []
    current = ""
    is_bracketed = False
    open_brackets: list[str] = []
    quote = ""
    for position, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character == "[" and "(" not in open_brackets:
            is_optional = not current.strip() or re.match(r"\[\s*,", text[position:])
            open_brackets.append("optional" if is_optional else "(")
            if is_optional:
                continue
        elif character in "([{":
            open_brackets.append("(")
        elif character in ")]}" and open_brackets:
            if open_brackets.pop() == "optional":
                continue
        elif character == "," and "(" not in open_brackets:
            arguments.append((current, is_bracketed))
            current = ""
            continue
        if not current.strip():
            is_bracketed = "optional" in open_brackets
        current += character
    arguments.append((current, is_bracketed))
    return arguments
