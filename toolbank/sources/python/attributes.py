"""Which classes the attributes of instances hold, and which package owns an object."""

import ast
import enum
import functools
import importlib
import inspect
import numbers
import sys
import typing
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import resolve_name
from types import ModuleType
from typing import Any

from toolbank.sources.python.settings import CLASSES, Kind, recipe_kind
from toolbank.sources.python.walk import Attribute, IsListed

_SCALARS = (int, float, complex, str, bytes)
_CONTAINERS = (dict, list, tuple, set, frozenset, *_SCALARS)
_TYPE_MODULES = frozenset({"types", "typing", "typing_extensions"})


def kind_of(value: Any, package: str) -> Kind | None:
    """Return the kind of an object; None for constants, containers and scalar types."""
    if inspect.ismodule(value):
        return "module"
    if inspect.isclass(value):
        return None if _is_scalar(value) else recipe_kind(value)
    if inspect.isroutine(value):
        return "function"
    if isinstance(value, _CONTAINERS) or value is None:
        return None
    home = type(value).__module__.partition(".")[0]
    is_own = is_within(home, package)
    if callable(value) and home not in _TYPE_MODULES and (is_own or _is_named(value)):
        return "function"
    is_data = hasattr(type(value), "__float__") or hasattr(type(value), "__int__")
    if is_own and hasattr(type(value), "__getitem__") and not is_data:
        return "object"
    return None


def text_of(value: Any, attribute: str) -> str:
    """Return an attribute that is a string, or ""."""
    try:
        text = getattr(value, attribute, "")
    except Exception:  # an attribute of an instance may be computed
        return ""
    return text if isinstance(text, str) else ""


def is_instance_of(value: Any, package: str) -> bool:
    """Whether an object is an instance of a class of a package, and no number, text or enum."""
    is_other = inspect.isclass(value) or inspect.ismodule(value)
    if is_other or inspect.isroutine(value) or isinstance(value, _CONTAINERS):
        return False
    cls = type(value)
    home = cls.__module__ or ""
    is_value = _is_scalar(cls) or issubclass(cls, enum.Enum)
    return is_within(home, package) and home != "builtins" and not is_value


def own_docstring(value: Any, kind: Kind) -> str:
    """Return an object's docstring, or "".

    A method inherits its docstring, and a function may have it on an overload, or on the `__call__`
    of its class. A class does not inherit it, but uses that of its own `__init__`.
    """
    try:
        if kind in CLASSES:
            text = value.__doc__ if "__doc__" in value.__dict__ else None
            text = text or getattr(value.__dict__.get("__init__"), "__doc__", None)
        elif kind in ("function", "method", "property"):
            text = inspect.getdoc(value) or _overload_docstring(value)
            is_own = kind != "function" or inspect.isroutine(value) or _is_named(value)
            text = text if is_own else text_of(type(value).__call__, "__doc__") or text
        else:
            text = getattr(value, "__doc__", None)
    except Exception:  # a foreign descriptor may raise anything
        return ""
    return text if isinstance(text, str) else ""


def is_foreign(value: Any, package: str, *, is_root: bool) -> bool:
    """Whether a name in `__all__` re-exports an object of another package.

    The top module of a facade may re-export objects of other packages, but no modules.
    """
    home = home_of(value)
    if is_within(home, package) or home == "builtins":
        return False
    standard = sys.stdlib_module_names
    if home.partition(".")[0] in standard:
        return package.partition(".")[0] not in standard or inspect.ismodule(value)
    return inspect.ismodule(value) or not is_root


def home_of(value: Any) -> str:
    """Return the name of the module that defines an object, or of a module itself."""
    home = text_of(value, "__name__" if inspect.ismodule(value) else "__module__")
    return home or type(value).__module__


def is_within(home: str, package: str) -> bool:
    """Whether a module is in a package, or in its private twin: `_name` for `name`."""
    top = package.partition(".")[0]
    return home.partition(".")[0] in (top, f"_{top}")


def _overload_docstring(value: Any) -> str | None:
    overloads = typing.get_overloads(value) if inspect.isfunction(value) else ()
    return next(filter(None, map(inspect.getdoc, overloads)), None)


def _is_scalar(cls: type) -> bool:
    """Whether instances are single numbers or texts; enums are not scalars."""
    try:
        return issubclass(cls, (numbers.Number, *_SCALARS)) and not issubclass(
            cls, enum.Enum
        )
    except TypeError:
        return False


def _is_named(instance: Any) -> bool:
    """Whether a callable instance has a name or docstring other than its type's."""
    text = inspect.getattr_static(instance, "__doc__", None)
    return bool(text_of(instance, "__name__")) or text is not type(instance).__doc__


_WRAPPERS = frozenset({"Annotated", "ClassVar", "Final", "Optional"})


@dataclass(frozen=True)
class ModuleText:
    """A module with its syntax tree, and the classes in that by qualified name."""

    module: ModuleType
    tree: ast.Module
    classes: dict[str, ast.ClassDef]

    @functools.cached_property
    def imports(self) -> dict[str, tuple[str, str]]:
        """Module, and name in it or "", of each name that is imported anywhere in the text."""
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
        """Return the package's class that an annotation names or a call creates.

        Raises:
            LookupError: it names something of the package that can't be found.
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
        """Import a module of the package by a name that may be relative; None for others."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                full = resolve_name(name, vars(self.module).get("__package__"))
                is_own = is_within(full, self.module.__name__)
                return importlib.import_module(full) if is_own else None
        except BaseException as error:  # an import may do anything
            raise LookupError(name) from error


def find_definition(cls: type) -> tuple[ModuleText, ast.ClassDef] | None:
    """Find the source of a class, by its methods if `__module__` names a re-export."""
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
    except Exception:  # there may be no source, and a module may be any object
        return None
    return ModuleText(module, tree, dict(_classes(tree, "")))


def _classes(tree: ast.AST, prefix: str) -> Iterator[tuple[str, ast.ClassDef]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            yield f"{prefix}{node.name}", node
            yield from _classes(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.If | ast.Try):
            yield from _classes(node, prefix)


_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def own_bases(cls: type, is_listed: IsListed) -> list[type]:
    """Return a class and its bases of the same package, without listed ones and their bases."""
    listed = {
        id(one) for base in cls.__mro__[1:] if is_listed(base) for one in base.__mro__
    }
    return [
        base
        for base in cls.__mro__
        if is_within(base.__module__ or "", cls.__module__ or "")
        and id(base) not in listed
    ]


def attributes_of(cls: type, is_listed: IsListed) -> Iterator[Attribute]:
    """Find the attributes that `__init__`, the properties and the body of a class define.

    Bases of the same package are included, except those that are listed themselves. Nothing is
    called; modules that only annotations name are imported.
    """
    known: set[str] = set()
    for base in own_bases(cls, is_listed):
        if not (found := find_definition(base)):
            continue
        text, definition = found
        given: dict[str, list[_Origin]] = {}
        for name, origin in _given(definition, base):
            if not name.startswith("_") and name not in known:
                given.setdefault(name, []).append(origin)
        for name, origins in given.items():
            yield from _held(text, name, origins)
        known |= given.keys()


_Origin = tuple[ast.expr, bool]
"""An expression that defines an attribute, and whether it is an annotation rather than a value."""


def _held(text: ModuleText, name: str, origins: list[_Origin]) -> Iterator[Attribute]:
    """Yield an attribute with each class that it may hold; annotations take precedence."""
    annotated: dict[int, type] = {}
    made: dict[int, type] = {}
    named: dict[int, type] = {}
    is_lost = False
    for whole, is_annotation in origins:
        is_telling = is_annotation or isinstance(whole, ast.Call)
        for node in ast.walk(whole):
            try:
                cls = text.class_of(node)
            except LookupError:
                is_lost = True
                continue
            if cls is None:
                continue
            if node is whole and is_telling:
                (annotated if is_annotation else made)[id(cls)] = cls
                break
            named[id(cls)] = cls
    possible = annotated or made | named
    for key, cls in (annotated | made | named).items():
        is_instance = key in annotated or key in made
        is_descriptor = inspect.getattr_static(cls, "__get__", None) is not None
        is_only = is_instance and not is_descriptor and [*possible] == [key]
        yield Attribute(name, cls, is_instance, is_only)
    if is_lost and not (possible or named):
        yield Attribute(name, None)


def _given(definition: ast.ClassDef, cls: type) -> Iterator[tuple[str, _Origin]]:
    """Yield attributes with the annotations and values that the class gives them."""
    for node in _in_scope(definition.body):
        if isinstance(node, ast.Assign | ast.AnnAssign):
            yield from _assigned(node, None)
        if not isinstance(node, ast.FunctionDef):
            continue
        if node.name == "__init__":
            arguments = [*node.args.posonlyargs, *node.args.args]
            for inner in _in_scope(node.body):
                if isinstance(inner, ast.Assign | ast.AnnAssign) and arguments:
                    yield from _assigned(inner, arguments[0].arg)
        elif isinstance(vars(cls).get(node.name), property | functools.cached_property):
            if node.returns is not None:
                yield node.name, (_Unquote().visit(node.returns), True)
                continue
            for inner in _in_scope(node.body):
                if isinstance(inner, ast.Return) and inner.value is not None:
                    yield node.name, (inner.value, False)


def _in_scope(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """All nodes of a body, except those inside of nested functions and classes."""
    nodes = list(body)
    for node in nodes:
        yield node
        if not isinstance(node, _SCOPES):
            nodes += ast.iter_child_nodes(node)


def _assigned(
    node: ast.Assign | ast.AnnAssign, owner: str | None
) -> Iterator[tuple[str, _Origin]]:
    """What a statement assigns to attributes of `owner`, or to plain names if it is None."""
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        match target:
            case ast.Name(id=name) if owner is None:
                pass
            case ast.Attribute(value=ast.Name(id=of), attr=name) if of == owner:
                pass
            case _:
                continue
        if isinstance(node, ast.Assign):
            yield name, (node.value, False)
        else:
            yield name, (_Unquote().visit(node.annotation), True)


class _Unquote(ast.NodeTransformer):
    """Parses the quoted parts of an annotation."""

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if not isinstance(node.value, str):
            return node
        try:
            return ast.parse(node.value, mode="eval").body
        except (SyntaxError, ValueError):
            return node
