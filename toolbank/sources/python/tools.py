"""The tools of a package's public objects, and what is skipped of them."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import cast

from toolbank.bank.bank import SkipCounter
from toolbank.bank.records import PythonCall, Tool, ToolKind
from toolbank.sources.documented import (
    Documented,
    Signature,
    read_signature,
    without_self,
)
from toolbank.sources.kind import ToolCollection
from toolbank.sources.python.annotated import told_by_annotation
from toolbank.sources.python.docstring import is_marked_private
from toolbank.sources.python.settings import (
    CLASSES,
    EXCLUDED,
    HIDDEN,
    Kind,
    PackageScope,
    PythonSource,
    describe_left_out,
)
from toolbank.sources.python.walk import MARKED_PRIVATE, PublicObject, Walk
from toolbank.sources.site import covers
from toolbank.sources.typetext import Parameter
from toolbank.system.errors import InputError

_NO_DOCSTRING = "without documentation"
_NO_ARGUMENTS = "class that is made without arguments"


class PackageTools:
    """The tools of packages, and the names that were skipped."""

    def __init__(self, config: PythonSource) -> None:
        self.scope = PackageScope.of(config)
        self.left_out = SkipCounter()
        self._config = config
        self._tools: dict[str, Tool] = {}
        self._undocumented: list[str] = []
        self._names: set[str] = set()

    def add(self, walk: Walk) -> None:
        """Add all documented objects, and the methods of classes.

        Methods of exceptions, enums and records are included only if these kinds are.
        """
        for item in sorted(walk.objects.values(), key=lambda item: item.name):
            self._names.update(item.names)
            try:
                tools = [*self._of_object(item, walk), *self._of_members(item, walk)]
            except Exception as error:  # a class of the package may raise anything
                reason = f"can't be read ({type(error).__name__})"
                self.left_out.add(reason, item.name)
                continue
            for tool in tools:
                self._tools.setdefault(tool.name, tool)
        for cls in walk.hidden.values():
            if "method" in self.scope.kinds and walk.reader.kind_of(cls) == "class":
                self._count_hidden(cls, walk)

    def collect(
        self, source: str, problems: Iterable[str], refusal: str
    ) -> ToolCollection:
        """Return the tools, sorted, with what was skipped.

        Raises:
            InputError: there are none, or a name in `parents` or `include` has none.
        """
        note = describe_left_out(
            self.left_out,
            self.scope.kinds,
            self._undocumented,
            methods=self._config.methods,
        )
        if not self._tools:
            found = f" Found: {note}." if note else ""
            raise InputError(f"sources: {refusal}{found}")
        for rule in (*(self._config.parents or ()), *(self._config.include or ())):
            if not any(covers(name, (rule,)) for name in self._names):
                raise InputError(
                    f"sources: {source}: nothing public is in {rule!r}, a name in `parents` or "
                    "`include`. Give a name that `toolbank tools` lists, or remove it."
                )
        skipped = dict(sorted(self.left_out.counts.items()))
        return ToolCollection(
            tuple(self._tools[name] for name in sorted(self._tools)),
            {
                "source": source,
                "left_out": skipped,
                "left_out_examples": {r: self.left_out.examples[r] for r in skipped},
                "undocumented": sorted(self._undocumented),
            },
            problems=tuple(problems),
            notes=(f"{source}: {note}",) if note else (),
        )

    def _of_object(self, item: PublicObject, walk: Walk) -> Iterator[Tool]:
        is_parent = not self.scope.parents.isdisjoint(item.names)
        if item.is_private or is_parent or self.scope.leaves_out(*item.names):
            return
        name, kind = item.name, item.kind
        if not item.text.strip():
            self._miss(name, kind, _NO_DOCSTRING)
            return
        tool = walk.reader.describe(name, kind, item.value, item.text)
        if (
            kind == "class"
            and not self.scope.every_class
            and not walk.reader.takes_arguments(item.value, tool)
        ):
            self.left_out.add(_NO_ARGUMENTS, name)
        elif self._has(kind, name):
            deprecated = tool.deprecated or min(item.names.values(), key=bool)
            aliases = tuple(sorted(item.names.keys() - {name}))
            yield tool.model_copy(update={"aliases": aliases, "deprecated": deprecated})

    def _of_members(self, owner: PublicObject, walk: Walk) -> Iterator[Tool]:
        if owner.kind not in CLASSES & {"class", *self.scope.kinds}:
            return
        for name, value, kind in walk.members(owner.value, of_deep=owner.is_deep):
            full = f"{owner.name}.{name}"
            self._names.update(f"{path}.{name}" for path in owner.names)
            text = walk.reader.docstring(value, kind)
            if self.scope.leaves_out(*(f"{path}.{name}" for path in owner.names)):
                if kind in self.scope.kinds:
                    self.left_out.add(EXCLUDED, full)
            elif reason := walk.reader.why_no_tool(value, owner.value, walk):
                self.left_out.add(reason, full)
            elif is_marked_private(text):
                self.left_out.add(MARKED_PRIVATE, full)
            elif not text.strip():
                whose = "" if self._config.folder else f"{kind} "
                self._miss(full, kind, f"{whose}{_NO_DOCSTRING}")
            elif self._has(kind, full):
                yield walk.reader.describe(full, kind, value, text)

    def _has(self, kind: Kind, name: str) -> bool:
        """Whether a kind is included; an object of another one is counted."""
        if kind not in self.scope.kinds:
            self.left_out.add(f"kind {kind}", name)
        return kind in self.scope.kinds

    def _miss(self, name: str, kind: Kind, reason: str) -> None:
        """Count an object without a docstring; names of those that would be tools are kept.

        Classes are not among them, as their methods may still be tools.
        """
        self.left_out.add(reason, name)
        if kind in self.scope.kinds and kind != "class":
            self._undocumented.append(name)

    def _count_hidden(self, cls: object, walk: Walk) -> None:
        place = walk.reader.locate(cls)
        for name, value, kind in walk.members(cls, of_deep=True):
            if kind == "method" and walk.reader.docstring(value, kind).strip():
                self.left_out.add(HIDDEN, f"{place.home}.{place.own}.{name}")


def make_tool(
    name: str,
    kind: Kind,
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
    tool_kind = cast(ToolKind, "class" if kind in CLASSES else kind)
    if tool_kind == "class":
        signature = replace(signature, text=signature.text.removesuffix(" -> None"))
    tool = documented.as_tool(
        name,
        tool_kind,
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
