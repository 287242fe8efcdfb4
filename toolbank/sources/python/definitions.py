"""Classes in the text of their modules, and what names mean there."""

import ast
import functools
import importlib
import inspect
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import resolve_name
from types import ModuleType
from typing import Any

from toolbank.sources.python.ownership import is_within

_WRAPPERS = frozenset({"Annotated", "ClassVar", "Final", "Optional"})


@dataclass(frozen=True)
class ModuleText:
    """A module, its text as a tree, and the classes in that by qualified name."""

    module: ModuleType
    tree: ast.Module
    classes: dict[str, ast.ClassDef]

    @functools.cached_property
    def imports(self) -> dict[str, tuple[str, str]]:
        """Module, and name in it or "", of all that is imported anywhere in the text."""
        found: dict[str, tuple[str, str]] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom):
                home = f"{'.' * node.level}{node.module or ''}"
                found |= {
                    one.asname or one.name: (home, one.name) for one in node.names
                }
            elif isinstance(node, ast.Import):
                for one in node.names:
                    top = one.name.partition(".")[0]
                    found[one.asname or top] = (one.name if one.asname else top, "")
        return found

    def class_of(self, annotation: ast.AST) -> type | None:
        """The class of the package that an annotation means, or a call makes an instance of.

        Raises:
            LookupError: a name in it is of the package and can't be found there.
        """
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
                return self._member(self._value(owner), name)
            case ast.Name(id=name) if name in names or name not in self.imports:
                return names.get(name)
            case ast.Name(id=name):
                home, member = self.imports[name]
                module = self._import(home)
                return self._member(module, member) if member else module
        return None

    def _member(self, owner: Any, name: str) -> Any:
        try:
            return inspect.getattr_static(owner, name)
        except AttributeError:
            is_module = inspect.ismodule(owner)
            return self._import(f"{owner.__name__}.{name}") if is_module else None

    def _import(self, name: str) -> ModuleType | None:
        """A module by a name that may be relative; None where it is of another package."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                full = resolve_name(name, vars(self.module).get("__package__"))
                is_own = is_within(full, self.module.__name__)
                return importlib.import_module(full) if is_own else None
        except BaseException as error:  # an import may do anything
            raise LookupError(name) from error


def find_definition(cls: type) -> tuple[ModuleText, ast.ClassDef] | None:
    """A class in its source, found by its methods too: `__module__` may name where it is shown."""
    functions = (value for value in vars(cls).values() if inspect.isfunction(value))
    homes = [cls.__module__, *(one.__globals__.get("__name__") for one in functions)]
    for home in dict.fromkeys(home for home in homes if isinstance(home, str)):
        source = _read(home)
        if source is not None and cls.__qualname__ in source.classes:
            return source, source.classes[cls.__qualname__]
    return None


@cache
def _read(name: str) -> ModuleText | None:
    module = sys.modules.get(name)
    if module is None:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(inspect.getsource(module))
    except Exception:  # there may be no text, and a module may be any object
        return None
    return ModuleText(module, tree, dict(_classes(tree, "")))


def _classes(tree: ast.AST, prefix: str) -> Iterator[tuple[str, ast.ClassDef]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            yield f"{prefix}{node.name}", node
            yield from _classes(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.If | ast.Try):
            yield from _classes(node, prefix)
