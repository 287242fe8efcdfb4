"""Parameters as the signature line of a page shows them."""

import ast
import re
from dataclasses import dataclass

from bs4 import Tag
from markup import classes, plain


@dataclass
class Shown:
    """A parameter of a signature; `default` is ... where it has none, None included if stated."""

    name: str
    stars: str
    optional: bool
    default: object


def read_signature(line: Tag) -> list[Shown]:
    depth = 0
    shown: list[Shown] = []
    parts: list[str] = []
    for part in line.find_all(True):
        if "optional" in classes(part) and part.name == "span":
            depth += part.get_text().count("[") - part.get_text().count("]")
        elif part.name == "em" and "sig-param" in classes(part):
            parts.append(plain(part))
            text = ",".join(parts)  # Sphinx parts some values at their commas
            if _is_open(text):
                continue
            parts = []
            known = _read(text, depth)
            shown += [known] if known else []
    return shown


def _is_open(text: str) -> bool:
    """Whether a default value goes on behind the comma."""
    value = text.partition("=")[2]
    closed = re.sub(r"""'[^']*'|"[^"]*\"""", "", value)
    return bool(re.search("['\"]", closed)) or closed.count("(") > closed.count(")")


def _read(text: str, depth: int) -> Shown | None:
    depth += len(text) - len(text.lstrip("["))
    name, equals, default = text.lstrip("[( ").partition("=")
    name = name.partition(":")[0].strip(" ])")
    if not name.strip("*").isidentifier():
        return None
    while default.count("]") > default.count("["):
        default = default.rpartition("]")[0]
    stars = name[: len(name) - len(name.lstrip("*"))]
    value = literal(default.strip()) if equals else ...
    return Shown(name.lstrip("*"), stars, bool(equals or depth > 0 or stars), value)


def literal(text: str) -> object:
    """The value of a literal; ... where the text is none, such as <no value>."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return ...
