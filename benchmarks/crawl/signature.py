"""Parameters as the signature line of a page shows them."""

import ast
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
    shown = []
    for part in line.find_all(True):
        if "optional" in classes(part) and part.name == "span":
            depth += part.get_text().count("[") - part.get_text().count("]")
        elif part.name == "em" and "sig-param" in classes(part):
            text = plain(part)
            depth += text.count("[", 0, len(text) - len(text.lstrip("[ ")))
            bare = text.strip("[], ")
            name, equals, default = bare.partition("=")
            name = name.partition(":")[0].strip()
            if name.strip("*").isidentifier():
                stars = name[: len(name) - len(name.lstrip("*"))]
                optional = bool(equals) or depth > 0 or bool(stars)
                value = literal(default.strip()) if equals else ...
                shown.append(Shown(name.lstrip("*"), stars, optional, value))
    return shown


def literal(text: str) -> object:
    """The value of a literal; ... where the text is none, such as <no value>."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return ...
