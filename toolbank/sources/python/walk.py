"""The public objects of a package, and the tools made of them."""

import functools
import inspect
import re
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

from toolbank.bank.bank import SkipCounter
from toolbank.bank.records import PythonCall, Tool, ToolKind
from toolbank.sources.documented import (
    Documented,
    Signature,
    read_signature,
    without_self,
)
from toolbank.sources.python.annotated import told_by_annotation
from toolbank.sources.python.attributes import (
    is_instance_of,
    kind_of,
    own_docstring,
    text_of,
)
from toolbank.sources.python.docstring import is_marked_private
from toolbank.sources.python.settings import Kind, PackageScope
from toolbank.sources.typetext import Parameter

NO_TOOL = "not a tool (constant, scalar type or container)"
OWN_TESTS = "function or object named test, which runs the tests of a package"
PROPERTY = re.compile(r"propert|attribute|reify|lazy", re.I)
"""Names of decorators and descriptors that make a property of a method."""

MARKED_PRIVATE = "marked `:meta private:`"


@dataclass
class PublicObject:
    """An object and its public paths, each with its deprecation or "".

    A class that `is_private` has no public path; its paths lead to an instance, and only its
    methods are public. All paths of an object that `is_deep` lead through modules that the package
    does not present (`walk_package`).
    """

    value: Any
    kind: ToolKind
    is_documented: bool
    names: dict[str, str] = field(default_factory=dict)
    is_private: bool = False
    is_deep: bool = False

    @property
    def name(self) -> str:
        """The best path (see `rank_path`) of those that are not deprecated, if there are any."""
        home = text_of(self.value, "__module__")
        own = text_of(self.value, "__qualname__") or text_of(self.value, "__name__")
        return min(
            self.names, key=lambda n: (bool(self.names[n]), rank_path(n, home, own))
        )


def rank_path(path: str, home: str, own: str) -> tuple[int, bool, bool, int, str]:
    """Rank the public paths of an object: the shortest first.

    Of these, the one that ends in the object's own name, then the one nearest to its module `home`.
    """
    parent, _, last = path.rpartition(".")
    is_far = not f"{home}.".startswith(f"{parent}.")
    return path.count("."), last != own, is_far, len(path), path


@dataclass
class Walk:
    """The public objects of a package by identity, and the skipped names.

    `instances` are those of the package's classes, by public path. `hidden` are private
    classes that public attributes may hold.
    """

    root: ModuleType
    scope: PackageScope
    objects: dict[int, PublicObject] = field(default_factory=dict)
    instances: dict[str, Any] = field(default_factory=dict)
    hidden: dict[int, type] = field(default_factory=dict)
    left_out: SkipCounter = field(default_factory=SkipCounter)
    undocumented: list[str] = field(default_factory=list)

    def take(
        self, name: str, value: Any, deprecated: str = "", *, is_deep: bool = False
    ) -> None:
        """Add an object by a public path to it, unless it is data."""
        kind = kind_of(value, self.root.__name__)
        is_named = isinstance(value, type) or inspect.ismodule(value)
        if name.endswith(".test") and not is_named:
            self.left_out.add(OWN_TESTS, name)
            return
        if is_instance_of(value, self.root.__name__):
            self.instances[name] = value
        if kind is None:
            if name not in self.instances:
                self.left_out.add(NO_TOOL, name)
            return
        text = own_docstring(value, kind)
        if is_marked_private(text):
            self.left_out.add(MARKED_PRIVATE, name)
            return
        new = PublicObject(value, kind, bool(text.strip()), is_deep=is_deep)
        known = self.objects.setdefault(id(value), new)
        known.names[name] = deprecated
        known.is_deep = known.is_deep and is_deep

    def take_part(self, name: str, cls: type) -> PublicObject | None:
        """Add a private class by the path to an instance; return it if it is new."""
        part = PublicObject(cls, "class", is_documented=False, is_private=True)
        known = self.objects.setdefault(id(cls), part)
        known.names[name] = ""
        return part if known is part else None

    @functools.cached_property
    def lineage(self) -> set[int]:
        """The public classes and their bases, by identity."""
        classes = (one.value for one in self.objects.values() if one.kind == "class")
        return {id(base) for cls in classes for base in cls.__mro__}

    def is_listed(self, cls: type) -> bool:
        """Whether a class was added by its own path."""
        item = self.objects.get(id(cls))
        return item is not None and not item.is_private

    def is_deeper(self, base: type, cls: type) -> bool:
        """Whether a class is presented by the package, and its base is not."""
        items = [self.objects.get(id(one)) for one in (base, cls)]
        base_is_deep, is_deep = (item is not None and item.is_deep for item in items)
        return base_is_deep and not is_deep

    def miss(self, name: str, kind: Kind, reason: str) -> None:
        """Count an object without a docstring; names of those that would be tools are kept.

        Classes are not among them, as their methods may still be tools.
        """
        self.left_out.add(reason, name)
        if kind in self.scope.kinds and kind != "class":
            self.undocumented.append(name)


def make_tool(
    name: str,
    kind: ToolKind,
    documented: Documented,
    signature: Signature,
    source: str = "",
) -> Tool:
    """Return the tool of a docstring and a signature, named by its import path.

    If the signature takes anything, or is empty, the one that the docstring begins with counts.
    Without a `source`, the name is not an import path, and the tool has no `call`.
    """
    takes = kind not in ("module", "property", "object")
    is_open = all(item.name.startswith("*") for item in signature.parameters)
    if takes and documented.signature and is_open:
        signature = read_signature(documented.signature)
    signature = without_self(signature, is_method=kind == "method")
    if kind == "class":
        signature = replace(signature, text=signature.text.removesuffix(" -> None"))
    tool = documented.as_tool(
        name,
        kind,
        f"{name}{signature.text}" if signature.text else "",
        _combined(signature, documented) if takes else (),
        source,
    )
    return tool.model_copy(update={"call": PythonCall(path=name)}) if source else tool


def _combined(signature: Signature, documented: Documented) -> list[Parameter]:
    """The signature's parameters in order, with types and descriptions of the docstring.

    A parameter that is only documented is appended if the signature takes any keyword, or there
    is no signature; otherwise it is skipped.
    """
    described = {item.name.lstrip("*"): item for item in documented.parameters}
    described.pop("self", None)
    combined: list[Parameter] = []
    for item in map(told_by_annotation, signature.parameters):
        words = described.pop(item.name.lstrip("*"), None)
        if words is not None:
            item = replace(
                item,
                classifier=words.classifier or item.classifier,
                description=words.description or item.description,
            )
        combined.append(item)
    if not signature.parameters or signature.parameters[-1].name.startswith("**"):
        combined.extend(described.values())
    return combined
