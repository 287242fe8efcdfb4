"""crawlers/<site>.yaml: where a Sphinx site lies and which of its objects are tools."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Literal, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from toolbank.config.assets import find_asset
from toolbank.config.base import Config
from toolbank.config.explain import explain
from toolbank.config.yaml import parse_mapping
from toolbank.system.errors import InputError
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

    A name in `include` or `exclude` stands for itself and all that is in it; with a `*` it is a
    pattern that the whole name must fit.
    """

    domain: Domain = Field(default="py", description="the language of the objects")
    roles: tuple[str, ...] = Field(
        min_length=1, description="what they are, as the inventory calls it"
    )
    parents: tuple[str, ...] = Field(
        default=(),
        description="modules or classes whose direct members count; none: all",
    )
    include: tuple[str, ...] = Field(
        default=(), description="names that count; none: all"
    )
    exclude: tuple[str, ...] = Field(default=(), description="names left out")
    constants: bool = Field(
        default=False,
        description="take data that holds a value too, and not only callable data",
    )
    pages: tuple[str, ...] = Field(
        default=(),
        description="pages, as patterns such as api/*.html, that document them; none: all",
    )

    @model_validator(mode="after")
    def _check_roles(self) -> Self:
        known = ROLES[self.domain]
        for role in self.roles:
            if role not in known:
                near = get_close_matches(role, known, n=1)
                hint = f"did you mean {near[0]}?" if near else f"({', '.join(known)})"
                raise ValueError(
                    f"no role {role!r} in the {self.domain} domain; {hint}"
                )
        return self


class Site(Config):
    """One Sphinx site."""

    base_url: str = Field(description="address of the folder that objects.inv lies in")
    objects: Objects
    tables: tuple[str, ...] = Field(
        default=(),
        description="pages, as patterns such as reference/*.html, whose autosummary tables "
        "list the tools; none: every object that fits is a tool",
    )
    lowercase: bool = Field(
        default=False,
        description="write names in lower case: ec2.client for EC2.Client; the rules above "
        "see them so",
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
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: can't be read ({error}).") from error
    data, lines = parse_mapping(text, str(path))
    try:
        return Site.model_validate(data)
    except ValidationError as error:
        message = explain(error, Site.model_json_schema(), str(path), lines, ())
        raise InputError(message) from error


def narrowed(site: Site, include: Sequence[str], exclude: Sequence[str]) -> Site:
    """The site with fewer names: those in `include` if it is given, without those in `exclude`."""
    objects = site.objects.model_copy(
        update={
            "include": tuple(include) or site.objects.include,
            "exclude": (*site.objects.exclude, *exclude),
        }
    )
    return site.model_copy(update={"objects": objects})


def covers(name: str, rules: Iterable[str]) -> bool:
    """Whether a rule of `include` or `exclude` speaks of a name."""
    return any(
        name == rule
        or name.startswith(f"{rule}.")
        or ("*" in rule and fnmatchcase(name, rule))
        for rule in rules
    )


def matches(path: str, patterns: Sequence[str]) -> bool:
    """Whether a page's path fits a pattern; `*` does not cross a slash."""
    parts = path.split("/")
    for pattern in patterns:
        wanted = pattern.split("/")
        if len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted)):
            return True
    return False
