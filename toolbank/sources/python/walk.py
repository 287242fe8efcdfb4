"""The public objects of a package, and the tools made of them."""

import re
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

from toolbank.bank.bank import SkipCounter
from toolbank.bank.records import PythonCall, Tool, ToolKind
from toolbank.sources.documented import Documented, Signature
from toolbank.sources.python.attributes import kind_of, own_docstring
from toolbank.sources.python.settings import Kind, PackageScope
from toolbank.sources.typetext import Parameter


@dataclass
class PublicObject:
    """An object and its public paths, each with its deprecation or "".

    A class that `is_private` has no public path; its paths lead to an instance, and only its
    methods are public.
    """

    value: Any
    kind: ToolKind
    is_documented: bool
    names: dict[str, str] = field(default_factory=dict)
    is_private: bool = False

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

    `hidden` are private classes that public attributes may hold.
    """

    root: ModuleType
    scope: PackageScope
    objects: dict[int, PublicObject] = field(default_factory=dict)
    hidden: dict[int, type] = field(default_factory=dict)
    left_out: SkipCounter = field(default_factory=SkipCounter)
    undocumented: list[str] = field(default_factory=list)

    def take(self, name: str, value: Any, deprecated: str = "") -> None:
        """Add an object by a public path to it, unless it is data."""
        kind = kind_of(value, self.root.__name__)
        if kind is None:
            self.left_out.add("not a tool (constant, scalar type or container)", name)
            return
        new = PublicObject(value, kind, bool(own_docstring(value, kind).strip()))
        self.objects.setdefault(id(value), new).names[name] = deprecated

    def is_listed(self, cls: type) -> bool:
        """Whether a class was added by its own path."""
        item = self.objects.get(id(cls))
        return item is not None and not item.is_private

    def miss(self, name: str, kind: Kind, reason: str) -> None:
        """Count an object without a docstring; names of those that would be tools are kept.

        Classes are not among them, as their methods may still be tools.
        """
        self.left_out.add(reason, name)
        if kind in self.scope.kinds and kind != "class":
            self.undocumented.append(name)


def text_of(value: Any, attribute: str) -> str:
    """Return an attribute that is a string, or ""."""
    text = getattr(value, attribute, "")
    return text if isinstance(text, str) else ""


def make_tool(
    name: str,
    kind: ToolKind,
    documented: Documented,
    signature: Signature,
    source: str = "",
) -> Tool:
    """Return the tool of a docstring and a signature, named by its import path.

    Without a `source`, the name is not an import path, and the tool has no `call`.
    """
    if kind == "method":
        signature = _without_self(signature)
    if kind == "class":
        signature = replace(signature, text=signature.text.removesuffix(" -> None"))
    takes = kind not in ("module", "property", "object")
    tool = documented.as_tool(
        name,
        kind,
        f"{name}{signature.text}" if signature.text else "",
        _combined(signature, documented) if takes else (),
        source,
    )
    return tool.model_copy(update={"call": PythonCall(path=name)}) if source else tool


def _without_self(signature: Signature) -> Signature:
    first = signature.parameters[:1]
    if not first or first[0].name not in ("self", "cls"):
        return signature
    text = re.sub(rf"^\({first[0].name}(?:, /)?(?:, )?", "(", signature.text)
    return Signature(text, signature.parameters[1:])


def _combined(signature: Signature, documented: Documented) -> list[Parameter]:
    """The signature's parameters in order, with types and descriptions of the docstring.

    A parameter that is only documented is appended if the signature takes any keyword, or there
    is no signature; otherwise it is skipped.
    """
    described = {item.name.lstrip("*"): item for item in documented.parameters}
    combined: list[Parameter] = []
    for item in signature.parameters:
        words = described.pop(item.name.lstrip("*"), None)
        if words is not None:
            item = replace(
                item,
                classifier=words.classifier or item.classifier,
                description=words.description,
            )
        combined.append(item)
    if not signature.parameters or signature.parameters[-1].name.startswith("**"):
        combined.extend(described.values())
    return combined
