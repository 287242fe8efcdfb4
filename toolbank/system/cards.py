"""Markdown cards from the Jinja templates of the package."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from jinja2 import Environment


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
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True).strip()
