"""crawlers/<site>.yaml: the address of a Sphinx site, and which of its objects are tools."""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Literal, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from toolbank.config.assets import find_asset
from toolbank.config.base import Config
from toolbank.config.explain import explain
from toolbank.config.yaml import parse_mapping
from toolbank.system.errors import InputError
from toolbank.system.files import read_text
from toolbank.system.net import checked_address

Domain = Literal["py", "js", "c", "cpp", "http"]

ROLES: dict[Domain, tuple[str, ...]] = {
    "py": (
        *("function", "method", "classmethod", "staticmethod", "class", "exception"),
        *("data", "attribute", "property", "module", "decorator", "decoratormethod"),
    ),
    "js": ("function", "method", "class", "data", "attribute", "module"),
    "c": ("function", "macro", "struct", "union", "enum", "type", "var", "member"),
    "cpp": ("function", "class", "struct", "enum", "type", "var", "member"),
    "http": (
        *("get", "post", "put", "patch", "delete", "head", "options", "any"),
        *("copy", "trace", "connect"),
    ),
}


class Objects(Config):
    """Which objects of the inventory can be tools.

    A name in `include` or `exclude` covers its members, too. With a `*` it is a pattern for whole
    names.
    """

    domain: Domain = Field(default="py", description="domain of the objects")
    roles: tuple[str, ...] = Field(min_length=1, description="roles in the inventory")
    parents: tuple[str, ...] = Field(
        default=(),
        description="modules or classes whose direct members are tools; none: all",
    )
    include: tuple[str, ...] = Field(
        default=(), description="names to include; none: all"
    )
    exclude: tuple[str, ...] = Field(default=(), description="names to exclude")
    constants: bool = Field(
        default=False,
        description="include data that can't be called",
    )
    pages: tuple[str, ...] = Field(
        default=(),
        description="patterns of their pages, such as api/*.html; none: all",
    )

    @model_validator(mode="after")
    def _check_roles(self) -> Self:
        known = ROLES[self.domain]
        for role in self.roles:
            if role not in known:
                raise ValueError(
                    f"no role {role!r} in the {self.domain} domain ({', '.join(known)})"
                )
        return self


class Site(Config):
    """One Sphinx site."""

    base_url: str = Field(description="address of the folder with objects.inv")
    objects: Objects
    tables: tuple[str, ...] = Field(
        default=(),
        description="patterns of the pages whose autosummary tables list the tools, such as "
        "reference/*.html; none: every matching object is a tool",
    )
    lowercase: bool = Field(
        default=False,
        description="convert names to lower case before the rules apply: ec2.client",
    )

    @field_validator("base_url")
    @classmethod
    def _check_address(cls, value: str) -> str:
        return checked_address(value)


def load_site(name: str) -> Site:
    """Read crawlers/<name>.yaml.

    Raises:
        InputError: there is no such file, it is no YAML, a key is unknown or a value is wrong;
            the message names file, line and key.
    """
    path = find_asset("crawlers", f"{name}.yaml").path
    data, lines = parse_mapping(read_text(path), str(path))
    try:
        return Site.model_validate(data)
    except ValidationError as error:
        message = explain(error, Site.model_json_schema(), str(path), lines, ())
        raise InputError(message) from error


def narrowed(site: Site, include: Sequence[str], exclude: Sequence[str]) -> Site:
    """Return the site with `include` in place of its own, and `exclude` added."""
    objects = site.objects.model_copy(
        update={
            "include": tuple(include) or site.objects.include,
            "exclude": (*site.objects.exclude, *exclude),
        }
    )
    return site.model_copy(update={"objects": objects})


def covers(name: str, rules: Iterable[str]) -> bool:
    """Whether a rule of `include` or `exclude` covers a name."""
    return any(
        name == rule
        or name.startswith(f"{rule}.")
        or ("*" in rule and fnmatchcase(name, rule))
        for rule in rules
    )


def matches(path: str, patterns: Sequence[str]) -> bool:
    """Whether a page's path matches a pattern; `*` does not match a slash."""
    parts = path.split("/")
    for pattern in patterns:
        wanted = pattern.split("/")
        if len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted)):
            return True
    return False
