"""Tools of an installed Python package, by introspection."""

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import replace
from types import ModuleType
from typing import Any

from toolbank.bank.records import Tool, ToolKind
from toolbank.sources.documented import Documented
from toolbank.sources.kind import Collected
from toolbank.sources.python.deprecated import deprecation_of
from toolbank.sources.python.docstring import read_docstring
from toolbank.sources.python.inspected import signature_of
from toolbank.sources.python.installed import package_version
from toolbank.sources.python.kinds import (
    Kind,
    describe_left_out,
    recipe_kind,
    takes_arguments,
)
from toolbank.sources.python.made import make_tool
from toolbank.sources.python.members import members
from toolbank.sources.python.ownership import own_docstring
from toolbank.sources.python.public import import_module, walk_package
from toolbank.sources.python.scope import Scope
from toolbank.sources.python.source import PythonSource
from toolbank.sources.python.walk import PublicObject, Walk
from toolbank.sources.signatures import Signature
from toolbank.system.errors import InputError

_HIDDEN = "method of a private class"
_NO_ARGUMENTS = "class that is made without arguments"


def read_package(config: PythonSource) -> Collected:
    """The public functions, methods and classes of a package, or what its scope takes of it.

    Importing the package runs its import code; nothing in it is called but the `repr` of
    default values, which may fail.

    Raises:
        InputError: the package is not installed, can't be imported, or has no public tools.
    """
    source = f"python:{package_version(config.api_name)}"
    root = _import(config.api_name)
    scope = Scope.of(config)
    walk = walk_package(root, scope)
    taken: dict[str, Tool] = {}
    left_out: Counter[Kind] = Counter()
    for kind, tool in _tools(walk, source):
        if kind in scope.kinds:
            taken.setdefault(tool.name, tool)
        else:
            left_out[kind] += 1
            walk.skip(tool.name, f"kind {kind}")
    note = describe_left_out(
        left_out,
        scope.kinds,
        walk.undocumented,
        hidden=walk.skipped[_HIDDEN],
        methods=config.methods,
    )
    if not taken:
        raise InputError(
            f"sources: the package {config.api_name} has no public functions or classes with "
            "a docstring. Give the module that has them (package: name.module), or list them "
            f"in its __all__ and describe them.{note and f' What it has was {note}.'}"
        )
    skipped = dict(sorted(walk.skipped.items()))
    return Collected(
        tuple(taken[name] for name in sorted(taken)),
        {
            "source": source,
            "left_out": skipped,
            "left_out_examples": dict(sorted(walk.examples.items())),
            "undocumented": sorted(walk.undocumented),
        },
        problems=tuple(
            f"{source}: {count:,} left out, {reason}: {', '.join(walk.examples[reason])}"
            for reason, count in skipped.items()
            if reason.startswith("can't be")
        ),
        notes=(f"{source}: {note}",) if note else (),
    )


def _tools(walk: Walk, source: str) -> Iterator[tuple[Kind, Tool]]:
    """All that is documented, and its kind; of methods those of classes that can hold tools.

    Such are all but exceptions, enums and records, and these too where they count themselves.
    """
    scope = walk.scope
    objects = sorted(walk.objects.values(), key=lambda item: item.name)
    kinds = {id(item.value): recipe_kind(item.value, item.kind) for item in objects}
    classes = {
        id(item.value)
        for item in objects
        if item.kind == "class" and kinds[id(item.value)] in {"class", *scope.kinds}
    }
    for item in objects:
        if not scope.parents.isdisjoint(item.names):
            continue
        try:
            yield from [*_tools_of(item, kinds[id(item.value)], classes, walk, source)]
        except Exception as error:  # a class of the package may raise anything
            reason = f"can't be read ({type(error).__name__})"
            walk.skip(item.name, reason)
    for cls in walk.hidden.values():
        _count_hidden(cls, classes, walk)


def _tools_of(
    item: PublicObject, kind: Kind, classes: Collection[int], walk: Walk, source: str
) -> Iterator[tuple[Kind, Tool]]:
    if item.is_documented:
        tool = _tool(item, source)
        if kind != "class" or walk.scope.every_class or _takes_arguments(item, tool):
            yield kind, tool
        else:
            walk.skip(tool.name, _NO_ARGUMENTS)
    elif not item.is_private:
        walk.miss(item.name, kind, "without documentation")
    if id(item.value) in classes:
        yield from _methods(item, classes, walk, source)


def _import(name: str) -> ModuleType:
    try:
        return import_module(name)[0]
    except BaseException as error:
        top = name.partition(".")[0]
        if isinstance(error, ModuleNotFoundError) and error.name == top:
            raise InputError(
                f"sources: the package {name} is not installed beside toolbank. Install it "
                f"there (pip install {top}, or the name that it has on the index), or check "
                "the spelling: it is the name that one imports."
            ) from error
        raise InputError(
            f"sources: the package {name} can't be imported "
            f"({type(error).__name__}: {error}). Make `python -c 'import {name}'` work first."
        ) from error


def _tool(item: PublicObject, source: str) -> Tool:
    name = item.name
    aliases = tuple(sorted(set(item.names) - {name}))
    tool = describe(name, item.kind, item.value, source)
    return tool.model_copy(
        update={
            "aliases": aliases,
            "deprecated": tool.deprecated or min(item.names.values(), key=bool),
        }
    )


def _takes_arguments(item: PublicObject, tool: Tool) -> bool:
    return takes_arguments(item.value, tool.signature, tool.parameters["properties"])


def _methods(
    owner: PublicObject, classes: Collection[int], walk: Walk, source: str
) -> Iterator[tuple[Kind, Tool]]:
    for name, value, kind in members(owner.value, lambda base: id(base) in classes):
        full = f"{owner.name}.{name}"
        if walk.scope.leaves_out(full):
            if kind in walk.scope.kinds:
                walk.skip(full, "excluded by the recipe")
        elif not own_docstring(value, kind).strip():
            walk.miss(full, kind, f"{kind} without documentation")
        else:
            yield kind, describe(full, kind, value, source)


def _count_hidden(cls: type, classes: Collection[int], walk: Walk) -> None:
    if "method" not in walk.scope.kinds or recipe_kind(cls, "class") != "class":
        return
    for name, value, kind in members(cls, lambda base: id(base) in classes):
        if kind == "method" and own_docstring(value, kind).strip():
            walk.skip(f"{cls.__module__}.{cls.__qualname__}.{name}", _HIDDEN)


def describe(name: str, kind: ToolKind, value: Any, source: str = "") -> Tool:
    """A tool of a callable or another object, by its docstring and signature."""
    documented = read_docstring(own_docstring(value, kind))
    signature = Signature()
    if kind in ("function", "method", "class"):
        documented = _with_init(documented, value) if kind == "class" else documented
        signature = signature_of(value, documented.signature)
    documented = replace(
        documented, deprecated=documented.deprecated or deprecation_of(value)
    )
    return make_tool(name, kind, documented, signature, source)


def _with_init(documented: Documented, cls: Any) -> Documented:
    """A class whose docstring lists no parameters takes those of its `__init__`."""
    init = cls.__dict__.get("__init__")
    text = getattr(init, "__doc__", None)
    if documented.parameters or not isinstance(text, str):
        return documented
    return replace(documented, parameters=read_docstring(text).parameters)
