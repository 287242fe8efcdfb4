"""Decode JSON, clean text, escape keys of JSON pointers (RFC 6901), and fill in templates."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment

# The C0 and C1 sets (with line feeds), characters that change the direction of writing, and halves
# of surrogate pairs.
_CONTROL = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def decode_json(text: str | bytes) -> Any:
    """Decode JSON that may come from anyone.

    Raises:
        ValueError: it is not JSON, not UTF-8, or nested too deep.
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def replace_surrogates(text: str) -> str:
    """Replace each half of a surrogate pair with a question mark.

    JSON can escape one, and no file can hold it.
    """
    return text.encode("utf-8", "replace").decode("utf-8")


def find_control_character(text: str) -> str:
    """Find the first control character, such as "U+001B"; "" if there is none.

    These are characters that control a terminal, change the direction of writing, or cannot be
    written to a file.
    """
    found = _CONTROL.search(text)
    return f"U+{ord(found[0]):04X}" if found else ""


def escape(key: str) -> str:
    """Escape a key as a part of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")


def unescape(part: str) -> str:
    """Read the key from a part of a JSON pointer."""
    return part.replace("~1", "/").replace("~0", "~")


def fill_template(name: str, **values: Any) -> str:
    """Fill in a template of the package, such as "training/card.md.j2".

    Values are inserted as they are: escape foreign text for Markdown first. The filter `yaml`
    writes a value as YAML, such as for a card's front matter.
    """
    return _environment().get_template(name).render(values)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("toolbank", "."),
        autoescape=False,  # noqa: S701 - Markdown, not HTML
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["yaml"] = _write_yaml
    return environment


def _write_yaml(value: Any) -> str:
    import yaml

    return str(yaml.safe_dump(value, sort_keys=False, allow_unicode=True)).strip()


# A spreadsheet takes these cells for formulas; the quote before them makes them text.
_FORMULA = re.compile(r"'*[=+\-@\t\r]")


def quote_formula(cell: str) -> str:
    """Quote a cell of a CSV file that a spreadsheet would run as a formula."""
    return f"'{cell}" if _FORMULA.match(cell) else cell


def unquote_formula(cell: str) -> str:
    """Remove the quote of `quote_formula`."""
    return cell[1:] if cell[:1] == "'" and _FORMULA.match(cell) else cell
