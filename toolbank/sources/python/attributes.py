"""What the public attributes of a class's instances hold, as far as its source says it."""

import ast
import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from toolbank.sources.python.definitions import ModuleText, find_definition
from toolbank.sources.python.ownership import is_within

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


@dataclass(frozen=True)
class Attribute:
    """A public attribute, and a class of the package that stands where it gets its value.

    `is_instance` says that the value may be an instance of this class, `is_only` that it is one
    of no other. `cls` is None where what stands there is of the package and can't be found in it.
    """

    name: str
    cls: type | None
    is_instance: bool = False
    is_only: bool = False


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
        if not is_own or id(base) in listed or not (found := find_definition(base)):
            continue
        text, definition = found
        given: dict[str, list[_Origin]] = {}
        for name, origin in _given(definition, base):
            if not name.startswith("_") and name not in known:
                given.setdefault(name, []).append(origin)
        for name, origins in given.items():
            yield from _held(text, name, origins)
        known |= given.keys()


@dataclass(frozen=True)
class _Origin:
    """An annotation of an attribute, or what makes its value."""

    node: ast.expr
    is_annotation: bool


def _held(
    text: ModuleText, name: str, origins: Iterable[_Origin]
) -> Iterator[Attribute]:
    """An attribute with each class that it may hold; annotations go before what is made."""
    annotated: dict[int, type] = {}
    made: dict[int, type] = {}
    named: dict[int, type] = {}
    is_lost = False
    for one in origins:
        is_telling = one.is_annotation or isinstance(one.node, ast.Call)
        for node in ast.walk(one.node):
            try:
                cls = text.class_of(node)
            except LookupError:
                is_lost = True
                continue
            if cls is None:
                continue
            if node is one.node and is_telling:
                (annotated if one.is_annotation else made)[id(cls)] = cls
                break
            named[id(cls)] = cls
    possible = annotated or made | named
    for key, cls in (annotated | made | named).items():
        is_instance = key in annotated or key in made
        yield Attribute(name, cls, is_instance, is_instance and [*possible] == [key])
    if is_lost and not (possible or named):
        yield Attribute(name, None)


def _given(definition: ast.ClassDef, cls: type) -> Iterator[tuple[str, _Origin]]:
    """Attributes, each with what the class says of where it gets its value."""
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
                yield node.name, _annotation(node.returns)
                continue
            for inner in _in_scope(node.body):
                if isinstance(inner, ast.Return) and inner.value is not None:
                    yield node.name, _Origin(inner.value, False)


def _in_scope(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """All nodes of a body, without those in the functions and classes that stand in it."""
    nodes = list(body)
    for node in nodes:
        yield node
        if not isinstance(node, _SCOPES):
            nodes += ast.iter_child_nodes(node)


def _assigned(
    node: ast.Assign | ast.AnnAssign, owner: str | None
) -> Iterator[tuple[str, _Origin]]:
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
            yield name, _Origin(node.value, False)
        else:
            yield name, _annotation(node.annotation)


def _annotation(node: ast.expr) -> _Origin:
    """An annotation whose parts in quotes are read too."""
    return _Origin(_Unquote().visit(node), True)


class _Unquote(ast.NodeTransformer):
    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if not isinstance(node.value, str):
            return node
        try:
            return ast.parse(node.value, mode="eval").body
        except (SyntaxError, ValueError):
            return node
