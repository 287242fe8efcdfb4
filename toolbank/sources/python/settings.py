"""Configuration of a package as a source: which names and kinds of objects are tools."""

import enum
import importlib.util
import platform
import re
import site
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Literal, Self, get_args

from pydantic import Field, model_validator

from toolbank.bank.bank import SkipCounter
from toolbank.config.assets import has_asset
from toolbank.sources.kind import SourceConfig
from toolbank.sources.python.folder_files import hash_files
from toolbank.sources.site import covers, load_site
from toolbank.system.errors import InputError
from toolbank.system.numbers import count

Kind = Literal[
    "function",
    "method",
    "class",
    "object",
    "property",
    "module",
    "exception",
    "enum",
    "record",
]

CALLED: frozenset[Kind] = frozenset({"function", "method", "class"})
"""The default kinds, if neither the recipe nor a file of crawlers/ names any."""

CLASSES: frozenset[Kind] = frozenset({"class", "exception", "enum", "record"})

_OF_ROLES: dict[str, tuple[Kind, ...]] = {
    **dict.fromkeys(("function", "decorator"), ("function",)),
    "class": ("class", "enum", "record"),
    "exception": ("exception",),
    "data": ("object",),
    "module": ("module",),
    **dict.fromkeys(("method", "classmethod", "staticmethod"), ("method",)),
    "decoratormethod": ("method",),
    **dict.fromkeys(("attribute", "property"), ("property",)),
}
EXCLUDED = "excluded by the recipe"
HIDDEN = "method of a private class"
IMPORTED = "import of a private module's object"
DEPRECATED = "deprecated module"
_REMEDIES = {
    HIDDEN: "to include them, give the private module as the package",
    IMPORTED: "to include them, give the private module as the package",
    DEPRECATED: "to include it, give it as the package",
}
"""How to include what was skipped for a reason."""

_NAMED = 3
_LONGEST_LICENCE = 80
_PLURALS: dict[Kind, str] = {"class": "classes", "property": "properties"}


def recipe_kind(value: type) -> Kind:
    """Return the recipe's kind of a class: exceptions, enums and records are no classes."""
    if issubclass(value, BaseException):
        return "exception"
    if issubclass(value, enum.Enum):
        return "enum"
    return "record" if any(map(_is_record, value.__mro__)) else "class"


def describe_left_out(
    left_out: SkipCounter,
    kinds: Iterable[Kind],
    undocumented: Sequence[str] = (),
    *,
    methods: bool,
) -> str:
    """Report what was skipped: how many of each kind, an example, and how to include them.

    `kinds` are the included kinds, `methods` is the key of that name. `undocumented` names objects
    of these kinds without a docstring.
    """
    parts: list[str] = []
    skipped = {kind: left_out.counts[f"kind {kind}"] for kind in get_args(Kind)}
    ranked = sorted((-n, kind) for kind, n in skipped.items() if n)
    if ranked:
        counts = (
            f"{count(-n, kind, _PLURALS.get(kind, ''))} such as "
            f"{left_out.examples[f'kind {kind}'][0]}"
            for n, kind in ranked
        )
        named = [kind for kind in get_args(Kind) if kind in kinds or skipped[kind]]
        key = f"`kinds: [{', '.join(named)}]`"
        if skipped["method"] and not methods:
            key += " and remove `methods: false`"
        parts.append(f"{', '.join(counts)} (to include them, set {key})")
    if undocumented:
        names = ", ".join(sorted(undocumented)[:_NAMED])
        more = f" and {n - _NAMED:,} more" if (n := len(undocumented)) > _NAMED else ""
        parts.append(f"{n:,} without a docstring ({names}{more})")
    for reason, remedy in _REMEDIES.items():
        if number := left_out.counts[reason]:
            example = left_out.examples[reason][0]
            parts.append(f"{number:,} {reason}, such as {example} ({remedy})")
    return f"skipped: {'; '.join(parts)}" if parts else ""


def _is_record(base: type) -> bool:
    """Whether a class is a dataclass, NamedTuple, TypedDict or the base of pydantic models."""
    is_pydantic = base.__module__.partition(".")[0] == "pydantic"
    return (
        "__dataclass_fields__" in vars(base)
        or (is_pydantic and base.__name__ == "BaseModel")
        or (issubclass(base, tuple) and "_fields" in vars(base))
        or type(base).__name__ == "_TypedDictMeta"
    )


class PythonSource(SourceConfig):
    """An installed Python package, which is imported, or a folder of source, which is parsed.

    Without `parents`, `include` and `exclude`, those of crawlers/<package>.yaml apply, with the
    kinds of its roles: the same scope as a crawl of the package's pages.
    """

    type: Literal["python"] = "python"
    package: str | None = Field(
        default=None,
        min_length=1,
        description="import name of an installed package, such as numpy",
    )
    folder: Path | None = Field(
        default=None,
        description="folder of Python source, or one that contains packages or src/; nothing "
        "is imported or run",
    )
    parents: tuple[str, ...] | None = Field(
        default=None, description="modules whose direct members are tools; unset: all"
    )
    include: tuple[str, ...] | None = Field(
        default=None,
        description="names to include, with their members; unset: all",
    )
    exclude: tuple[str, ...] | None = Field(
        default=None, description="names to exclude, with their members"
    )
    kinds: tuple[Kind, ...] | None = Field(
        default=None,
        min_length=1,
        description="kinds of tools; unset: function, method and class",
    )
    methods: bool = Field(default=True, description="false excludes methods")

    @model_validator(mode="after")
    def _check_place(self) -> Self:
        if (self.package is None) == (self.folder is None):
            raise ValueError(
                "give `package`, the import name of an installed package, or `folder`, a "
                "folder of source, and not both"
            )
        return self

    @property
    def label(self) -> str:
        """What messages call the source."""
        return f"python:{self.name or self.api_name}"

    @property
    def api_name(self) -> str:
        """The package, or the folder's name."""
        return self.package or (self.folder or Path()).resolve().name

    @property
    def scope_name(self) -> str | None:
        """The package, where the recipe leaves the scope to crawlers/<package>.yaml."""
        is_narrowed = (self.parents, self.include, self.exclude) != (None, None, None)
        return None if is_narrowed else self.package


@dataclass(frozen=True)
class PackageScope:
    """Which part of a package is read.

    `parents` are the modules whose direct members are tools; empty: all. `include` names objects
    to read with their members, empty: all; `exclude` those to skip. `every_class` includes classes
    that take no arguments.
    """

    parents: frozenset[str]
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    kinds: frozenset[Kind]
    every_class: bool = False

    @classmethod
    def of(cls, config: PythonSource) -> Self:
        """Return the scope of a source, or that of crawlers/<package>.yaml.

        Raises:
            InputError: that file is no YAML, or a key or a value of it is wrong.
        """
        name = config.scope_name
        if name is None or not has_asset("crawlers", f"{name}.yaml"):
            scope = cls(
                frozenset(config.parents or ()),
                config.include or (),
                config.exclude or (),
                CALLED,
            )
        else:
            rules = load_site(name).objects
            kinds = {kind for role in rules.roles for kind in _OF_ROLES.get(role, ())}
            scope = cls(
                frozenset(rules.parents),
                rules.include,
                rules.exclude,
                frozenset(kinds or CALLED),
                True,
            )
        kept = frozenset(config.kinds or scope.kinds)
        return replace(scope, kinds=kept if config.methods else kept - {"method"})

    def leaves_out(self, *names: str) -> bool:
        """Whether an object's names have none of the parents, are not included, or are excluded."""
        if any(covers(name, self.exclude) for name in names):
            return True
        if self.include and not any(covers(name, self.include) for name in names):
            return True
        near = {*names, *(name.rpartition(".")[0] for name in names)}
        return bool(self.parents) and self.parents.isdisjoint(near)

    def looks_into(self, owner: str) -> bool:
        """Whether a module or class may have members that are read."""
        if covers(owner, self.exclude):
            return False
        rules = (*self.include, *self.parents)
        is_above = any("*" in r or f"{r}.".startswith(f"{owner}.") for r in rules)
        return is_above or not self.leaves_out(owner)


def package_version(package: str) -> str:
    """Return name and version of a package, such as "numpy==2.3.5".

    The standard library has Python's version; a package that pip did not install has none.

    Raises:
        InputError: the name is empty, relative, or not names joined by dots.
    """
    if not all(part.isidentifier() for part in package.split(".")):
        raise InputError(
            f"sources: {package!r} is no import name of a package. Give a name such as "
            "numpy or numpy.linalg."
        )
    top = package.partition(".")[0]
    try:
        return f"{package}=={metadata.version(_find_distribution(top) or top)}"
    except metadata.PackageNotFoundError:
        if top in sys.stdlib_module_names:
            return f"{package}=={'.'.join(map(str, sys.version_info[:3]))}"
        return package


def package_licence(package: str) -> str:
    """Return a package with its licence, by its metadata, such as "networkx 3.5: BSD-3-Clause"; or ""."""
    top = package.partition(".")[0]
    if top in sys.stdlib_module_names:
        return f"{top} of Python {platform.python_version()}: PSF-2.0"
    try:
        found = metadata.metadata(_find_distribution(top) or top).json
    except metadata.PackageNotFoundError:
        return ""
    stated = str(found.get("license_expression") or found.get("license") or "")
    if not 0 < len(stated) <= _LONGEST_LICENCE or "\n" in stated:
        licences = (
            c for c in found.get("classifier", ()) if c.startswith("License ::")
        )
        stated = ", ".join(one.rpartition(" :: ")[2] for one in licences)
    return f"{found['name']} {found['version']}: {stated}" if stated else ""


def package_places(package: str) -> tuple[Path, ...]:
    """Return the folders of a package or the file of a module, if it is installed."""
    try:
        spec = importlib.util.find_spec(package.partition(".")[0])
    except (ImportError, ValueError):
        return ()
    found = spec and (spec.submodule_search_locations or [spec.origin or ""])
    return tuple(Path(one).resolve() for one in found or () if Path(one).exists())


def source_hash(package: str) -> str:
    """Return the SHA-256, in hex, of an editable package's .py files, or "".

    They may change while the version stays the same. An installed package has none.
    """
    places = package_places(package)
    is_standard = package.partition(".")[0] in sys.stdlib_module_names
    if is_standard or all(map(_is_installed, places)):
        return ""
    return hash_files(
        (path, place.parent)
        for place in places
        for path in (sorted(place.rglob("*.py")) if place.is_dir() else [place])
    )


def _find_distribution(top: str) -> str:
    """Return the first distribution that contains a package, or "".

    `metadata.packages_distributions` gives the same, but parses every list of files, which takes
    40 times as long.
    """
    listed = re.compile(rf"^{re.escape(top)}(/|\.(\S+\.)?(py|so|pyd),)", re.MULTILINE)
    for distribution in metadata.distributions():
        declared = (distribution.read_text("top_level.txt") or "").split()
        if top in declared or (
            not declared and listed.search(distribution.read_text("RECORD") or "")
        ):
            return distribution.name
    return ""


def _is_installed(place: Path) -> bool:
    homes = [*site.getsitepackages(), site.getusersitepackages()]
    homes += [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    return any(place.is_relative_to(Path(home).resolve()) for home in homes)
