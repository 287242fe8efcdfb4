"""What the public attributes of a class's instances hold, as far as its source says it."""

import ast
import functools
import importlib
import inspect
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import resolve_name
from types import ModuleType
from typing import Any

from toolbank.sources.python.ownership import is_within

_WRAPPERS = frozenset({"Annotated", "ClassVar", "Final", "Optional"})


@dataclass(frozen=True)
class Attribute:
    """A public attribute, and a class of the package that stands where it gets its value.

    `is_instance` says that the value is an instance of this class; else that can't be told.
    """

    name: str
    cls: type
    is_instance: bool


def attributes_of(cls: type, is_listed: Callable[[type], bool]) -> Iterator[Attribute]:
    """Read what `__init__`, the properties and the body of a class say of its attributes.

    The same of its bases in the package, except those that are listed themselves. Nothing is
    called; a module of the package is imported where only annotations name it as yet.
    """
    listed = {
        id(one) for base in cls.__mro__[1:] if is_listed(base) for one in base.__mro__
    }
    known: set[str] = set()
    for base in cls.__mro__:
        is_own = is_within(base.__module__ or "", cls.__module__ or "")
        if not is_own or id(base) in listed or not (found := _written(base)):
            continue
        source, definition = found
        given = [
            (name, node)
            for name, node in _given(definition, base)
            if not name.startswith("_") and name not in known
        ]
        for name, node in given:
            if (part := source.class_of(node)) is not None:
                yield Attribute(name, part, True)
                continue
            for inner in ast.walk(node):
                if (part := source.class_of(inner)) is not None:
                    yield Attribute(name, part, False)
        known.update(name for name, _ in given)


@dataclass(frozen=True)
class _Source:
    """A module, its text as a tree, and the classes in that by qualified name."""

    module: ModuleType
    tree: ast.Module
    classes: dict[str, ast.ClassDef]

    @functools.cached_property
    def imports(self) -> dict[str, tuple[str, str]]:
        """Module and name of all that is imported by name anywhere in the text."""
        return {
            alias.asname or alias.name: (
                f"{'.' * node.level}{node.module or ''}",
                alias.name,
            )
            for node in ast.walk(self.tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }

    def class_of(self, annotation: ast.AST) -> type | None:
        """The class of the package that an annotation means, or a call makes an instance of."""
        match annotation:
            case ast.Call(func=called):
                return self.class_of(called)
            case ast.BinOp(op=ast.BitOr(), left=one, right=ast.Constant(value=None)):
                return self.class_of(one)
            case ast.BinOp(op=ast.BitOr(), left=ast.Constant(value=None), right=one):
                return self.class_of(one)
            case ast.Subscript(value=wrapper, slice=inner):
                name = getattr(wrapper, "attr", getattr(wrapper, "id", ""))
                if name not in _WRAPPERS:
                    return self.class_of(wrapper)
                first = inner.elts[0] if isinstance(inner, ast.Tuple) else inner
                return self.class_of(first)
        value = self._value(annotation)
        home = getattr(value, "__module__", None) if isinstance(value, type) else None
        is_own = isinstance(home, str) and is_within(home, self.module.__name__)
        return value if is_own else None

    def _value(self, node: ast.AST) -> Any:
        names = vars(self.module)
        match node:
            case ast.Attribute(value=owner, attr=name):
                return inspect.getattr_static(self._value(owner), name, None)
            case ast.Name(id=name) if name in names or name not in self.imports:
                return names.get(name)
            case ast.Name(id=name):
                return self._imported(*self.imports[name])
        return None

    def _imported(self, module: str, name: str) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                full = resolve_name(module, vars(self.module).get("__package__"))
                if not is_within(full, self.module.__name__):
                    return None
                return inspect.getattr_static(importlib.import_module(full), name)
        except BaseException:  # an import may do anything
            return None


def _given(definition: ast.ClassDef, cls: type) -> Iterator[tuple[str, ast.expr]]:
    """Attributes, each with its annotation, or with what makes its value."""
    for node in definition.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            yield from _assigned(node, None)
        if not isinstance(node, ast.FunctionDef):
            continue
        if node.name == "__init__":
            arguments = [*node.args.posonlyargs, *node.args.args]
            for inner in ast.walk(node):
                if isinstance(inner, ast.Assign | ast.AnnAssign) and arguments:
                    yield from _assigned(inner, arguments[0].arg)
        elif isinstance(vars(cls).get(node.name), property | functools.cached_property):
            if node.returns is not None:
                yield node.name, _unquoted(node.returns)
                continue
            for inner in ast.walk(node):
                if isinstance(inner, ast.Return) and inner.value is not None:
                    yield node.name, _made(inner.value)


def _assigned(
    node: ast.Assign | ast.AnnAssign, owner: str | None
) -> Iterator[tuple[str, ast.expr]]:
    """What a statement gives to attributes of `owner`, or, where that is None, to plain names."""
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        match target:
            case ast.Name(id=name) if owner is None:
                pass
            case ast.Attribute(value=ast.Name(id=of), attr=name) if of == owner:
                pass
            case _:
                continue
        if isinstance(node, ast.Assign):
            yield name, _made(node.value)
        else:
            yield name, _unquoted(node.annotation)


def _made(value: ast.expr) -> ast.expr:
    """A value; unless it is a call, in a tuple, as a name alone would be read as an annotation."""
    return value if isinstance(value, ast.Call) else ast.Tuple([value])


class _Unquote(ast.NodeTransformer):
    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if not isinstance(node.value, str):
            return node
        try:
            return ast.parse(node.value, mode="eval").body
        except (SyntaxError, ValueError):
            return node


def _unquoted(annotation: ast.expr) -> ast.expr:
    """An annotation whose parts in quotes are read too."""
    read: ast.expr = _Unquote().visit(annotation)
    return read


def _written(cls: type) -> tuple[_Source, ast.ClassDef] | None:
    """A class in its source, found by its methods too: `__module__` may name where it is shown."""
    functions = (value for value in vars(cls).values() if inspect.isfunction(value))
    homes = [cls.__module__, *(one.__globals__.get("__name__") for one in functions)]
    for home in dict.fromkeys(home for home in homes if isinstance(home, str)):
        source = _read(home)
        if source is not None and cls.__qualname__ in source.classes:
            return source, source.classes[cls.__qualname__]
    return None


@cache
def _read(name: str) -> _Source | None:
    module = sys.modules.get(name)
    if module is None:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(inspect.getsource(module))
    except (
        Exception
    ):  # there may be no text, and what stands for a module may be any object
        return None
    return _Source(module, tree, dict(_classes(tree, "")))


def _classes(tree: ast.AST, prefix: str) -> Iterator[tuple[str, ast.ClassDef]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            yield f"{prefix}{node.name}", node
            yield from _classes(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.If | ast.Try):
            yield from _classes(node, prefix)
