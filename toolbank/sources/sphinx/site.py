"""crawlers/<site>.yaml: where a Sphinx site lies and which of its objects are tools."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal

import yaml
from pydantic import Field, ValidationError, field_validator

from toolbank.addresses import checked_address
from toolbank.assets import find_asset
from toolbank.config import Config
from toolbank.errors import InputError
from toolbank.sources.config import SphinxSource

Role = Literal["function", "class", "exception", "data", "module", "method"]


class Objects(Config):
    """Which objects of the inventory can be tools."""

    roles: tuple[Role, ...] = Field(min_length=1, description="roles of the py domain")
    parents: tuple[str, ...] = Field(
        default=(), description="modules whose direct members count; none: all"
    )
    exclude: tuple[str, ...] = Field(
        default=(), description="names left out, with all that is in them"
    )


class Site(Config):
    """One Sphinx site."""

    base_url: str = Field(description="address of the folder that objects.inv lies in")
    inventory: str = "objects.inv"
    objects: Objects
    tables: tuple[str, ...] = Field(
        default=(),
        description="pages, as patterns such as reference/*.html, whose autosummary tables "
        "list the tools; none: every object that fits is a tool",
    )

    @field_validator("base_url")
    @classmethod
    def _check_address(cls, value: str) -> str:
        return checked_address(value)


def load_site(source: SphinxSource) -> Site:
    """Read crawlers/<site>.yaml.

    Raises:
        InputError: there is no such file, it is no YAML, a key is unknown or a value is wrong.
    """
    path = find_asset("crawlers", f"{source.site}.yaml").path
    try:
        data: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise InputError(f"{path}: can't be read as YAML ({error}).") from error
    try:
        return Site.model_validate(data)
    except ValidationError as error:
        problems = [
            f"{path}: {'.'.join(map(str, problem['loc'])) or 'top level'}: {problem['msg']}."
            for problem in error.errors()
        ]
        raise InputError("\n".join(problems)) from error


def matches(path: str, patterns: Sequence[str]) -> bool:
    """Whether a page's path fits a pattern; `*` does not cross a slash."""
    parts = path.split("/")
    for pattern in patterns:
        wanted = pattern.split("/")
        if len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted)):
            return True
    return False
