"""What a walk through a package finds, and the tools made of it."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

from toolbank.bank.records import PythonCall, Tool, ToolKind
from toolbank.sources.documented import Documented, Signature
from toolbank.sources.python.attributes import kind_of, own_docstring
from toolbank.sources.python.settings import Kind, PackageScope
from toolbank.sources.typetext import Parameter

_NAMED_EXAMPLES = 5


@dataclass
class PublicObject:
    """An object and the public paths that lead to it, each with its deprecation or "".

    `is_private` is of a class that has no public path itself: its paths are those to an instance,
    and its methods are all that is public of it.
    """

    value: Any
    kind: ToolKind
    is_documented: bool
    names: dict[str, str] = field(default_factory=dict)
    is_private: bool = False

    @property
    def name(self) -> str:
        """The name that it goes by: its own where that is public, else the shortest path.

        Of paths that are as short, the one nearest to where the object is defined.
        """
        home = text_of(self.value, "__module__")
        own = text_of(self.value, "__qualname__") or text_of(self.value, "__name__")

        def rank(name: str) -> tuple[bool, int, bool, bool, int, str]:
            parent, _, last = name.rpartition(".")
            is_far = not f"{home}.".startswith(f"{parent}.")
            is_deprecated = bool(self.names[name])
            return (
                is_deprecated,
                name.count("."),
                last != own,
                is_far,
                len(name),
                name,
            )

        return min(self.names, key=rank)


@dataclass
class Walk:
    """The public objects of a package by identity, and what was left out, by reason.

    `hidden` are private classes that public attributes lead to in a way that can't be told.
    """

    root: ModuleType
    scope: PackageScope
    objects: dict[int, PublicObject] = field(default_factory=dict)
    hidden: dict[int, type] = field(default_factory=dict)
    skipped: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    undocumented: list[str] = field(default_factory=list)

    def take(self, name: str, value: Any, deprecated: str = "") -> None:
        """Take an object by a public path to it, unless it is data."""
        kind = kind_of(value, self.root.__name__)
        if kind is None:
            self.skip(name, "not a tool (constant, scalar type or container)")
            return
        new = PublicObject(value, kind, bool(own_docstring(value, kind).strip()))
        self.objects.setdefault(id(value), new).names[name] = deprecated

    def is_listed(self, cls: type) -> bool:
        """Whether a class was taken by a path of its own."""
        item = self.objects.get(id(cls))
        return item is not None and not item.is_private

    def skip(self, name: str, reason: str) -> None:
        """Count a name that is left out; the first few of a reason are kept."""
        self.skipped[reason] += 1
        if len(self.examples[reason]) < _NAMED_EXAMPLES:
            self.examples[reason].append(name)

    def miss(self, name: str, kind: Kind, reason: str) -> None:
        """Count what would be a tool if it had a docstring; all of these names are kept.

        A class is not among them: without a docstring it is there for its methods.
        """
        self.skip(name, reason)
        if kind in self.scope.kinds and kind != "class":
            self.undocumented.append(name)


def text_of(value: Any, attribute: str) -> str:
    """An attribute that is a text, or ""."""
    text = getattr(value, attribute, "")
    return text if isinstance(text, str) else ""


def make_tool(
    name: str,
    kind: ToolKind,
    documented: Documented,
    signature: Signature,
    source: str = "",
) -> Tool:
    """The tool of a docstring and a signature, which goes by its import path.

    Without a `source`, its name is no import path, and nothing is said of how it is called.
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
    text = signature.text.replace(f"({first[0].name}, /, ", "(")
    text = text.replace(f"({first[0].name}, /", "(").replace(f"({first[0].name}, ", "(")
    return Signature(text.replace(f"({first[0].name}", "("), signature.parameters[1:])


def _combined(signature: Signature, documented: Documented) -> list[Parameter]:
    """The signature's parameters in their order with the documented words.

    A parameter that is only documented comes last if the signature takes any keyword, or there
    is no signature; otherwise it is another's name and is left out.
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
