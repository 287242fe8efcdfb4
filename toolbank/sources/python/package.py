"""Read the tools of an installed Python package by importing it."""

from __future__ import annotations

import ast
import dataclasses
import enum
import functools
import inspect
import json
import re
import textwrap
import warnings
from collections.abc import Callable, Collection, Iterator, Set
from dataclasses import replace
from types import CodeType, ModuleType
from typing import (
    Any,
    Literal,
    NotRequired,
    Required,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from pydantic import BaseModel, TypeAdapter

from toolbank.bank.records import Tool, ToolKind
from toolbank.sources.documented import Documented, Signature
from toolbank.sources.kind import ToolCollection
from toolbank.sources.python.attributes import own_bases, own_docstring, text_of
from toolbank.sources.python.docstring import is_marked_private, read_docstring
from toolbank.sources.python.public import import_module, walk_package
from toolbank.sources.python.settings import (
    EXCLUDED,
    HIDDEN,
    Kind,
    PackageScope,
    PythonSource,
    describe_left_out,
    package_version,
    recipe_kind,
)
from toolbank.sources.python.walk import (
    MARKED_PRIVATE,
    PROPERTY,
    PublicObject,
    Walk,
    make_tool,
)
from toolbank.sources.typetext import Parameter
from toolbank.system.errors import InputError


def members(
    cls: type, is_listed: Callable[[type], bool]
) -> Iterator[tuple[str, Any, Literal["method", "property"]]]:
    """Yield a class's own methods and properties, sorted by name.

    Those of bases in the same package are its own, too, except where a listed class has them.
    """
    own = own_bases(cls, is_listed)
    found: dict[str, tuple[type, Any]] = {}
    for base in reversed(cls.__mro__):
        found |= {name: (base, value) for name, value in vars(base).items()}
    for name, (home, value) in sorted(found.items()):
        if name.startswith("_") or not any(home is base for base in own):
            continue
        if isinstance(value, staticmethod | classmethod):
            yield name, value.__func__, "method"
        elif _is_property(value):
            held = None if isinstance(value, property) else _called_by(value)
            yield name, held or value, "property"
        elif hasattr(value, "__get__") and not inspect.isclass(value):
            yield name, _called_by(value), "method"


def _is_property(value: Any) -> bool:
    is_known = isinstance(value, functools.cached_property) or hasattr(value, "fget")
    named = PROPERTY.search(type(value).__name__)
    return is_known or inspect.isdatadescriptor(value) or named is not None


def _called_by(value: Any) -> Any:
    """The function of a descriptor, which may be in any of its attributes; None without one."""
    if callable(value) and text_of(value, "__name__"):
        return value
    held = getattr(value, "__dict__", {})
    named = [held.get("__wrapped__"), held.get("func"), *held.values()]
    return next(filter(inspect.isroutine, named), None)


_WARNINGS = {"DeprecationWarning", "FutureWarning", "PendingDeprecationWarning"}


def deprecation_of(value: Any) -> str:
    """Return the message of `warnings.deprecated` (PEP 702), or of a warning of every call."""
    if stated := text_of(value, "__deprecated__"):
        return stated
    try:
        function = inspect.unwrap(value)
        code = getattr(function, "__code__", None)
        if not isinstance(code, CodeType) or _WARNINGS.isdisjoint(code.co_names):
            return ""
        parsed = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    except (OSError, TypeError, ValueError, SyntaxError, IndexError):
        return ""
    for statement in getattr(parsed, "body", ()):
        match statement:
            case ast.Expr(
                ast.Call(args=[ast.Constant(str() as said), ast.Name(id=name), *_])
            ):
                if name in _WARNINGS:
                    return said
    return ""


_MOST_CHARACTERS = 20_000


def read_annotations(value: Any) -> dict[str, dict[str, Any]]:
    """Return JSON Schemas, by name, of parameters that take an enum, a model or a record.

    A schema has its own `$defs`. Parameters without one can't be described in JSON Schema, or only
    in over 20,000 characters.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            parameters = inspect.signature(value, eval_str=True).parameters
        except Exception:  # an annotation may be any expression
            return {}
        found = {
            name: _schema_of(parameter.annotation)
            for name, parameter in parameters.items()
            if _is_described(parameter.annotation)
            and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        }
    return {name: schema for name, schema in found.items() if schema}


def _is_described(annotation: Any) -> bool:
    if inspect.isclass(annotation) and not get_args(annotation):
        is_record = dataclasses.is_dataclass(annotation) or is_typeddict(annotation)
        return is_record or issubclass(annotation, enum.Enum | BaseModel)
    return any(map(_is_described, get_args(annotation)))


def _schema_of(annotation: Any) -> dict[str, Any]:
    try:
        schema = TypeAdapter(annotation).json_schema()
        text = json.dumps(schema, allow_nan=False)
    except Exception:  # classes of any package may raise anything here
        return {}
    return schema if len(text) <= _MOST_CHARACTERS else {}


_MAX_TEXT = 1_000


_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_STARS = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_CLASS = re.compile(r"<class '(?:builtins\.)?([\w.]+)'>")


def signature_of(value: Any) -> Signature:
    """Return a callable's signature by `inspect`, or an empty one."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            signature = inspect.signature(value)
            written = _written(signature)
            text = _CLASS.sub(r"\1", _ADDRESS.sub("", str(written)))
    except Exception:  # objects of any package may raise anything here
        return Signature()
    schemas = read_annotations(value)
    parameters = [
        replace(
            _parameter(parameter, signature.parameters[name].default),
            schema=schemas.get(name),
        )
        for name, parameter in written.parameters.items()
        if not name.startswith("_")
        or (parameter.default is parameter.empty and parameter.kind not in _STARS)
    ]
    if parameters and parameters[-1].name.startswith("**"):
        parameters[-1:] = _unpacked(value) or parameters[-1:]
    return Signature(text, tuple(parameters))


def _unpacked(value: Any) -> list[Parameter]:
    """The keywords of a callable with `**kwargs: Unpack[Options]`, a TypedDict."""
    try:
        *_, last = inspect.signature(value, eval_str=True).parameters.values()
        if not str(get_origin(last.annotation)).endswith(".Unpack"):
            return []
        (record,) = get_args(last.annotation)
        hints = get_type_hints(record, include_extras=True)
        required = {name for name in hints if name in record.__required_keys__}
        for name, hint in hints.items():
            if get_origin(hint) is Required:
                required.add(name)
            elif get_origin(hint) is NotRequired:
                required.discard(name)
        return [
            Parameter(
                name,
                classifier=_write(inspect.formatannotation, hint),
                required=name in required,
                schema=(_is_described(hint) and _schema_of(hint)) or None,
            )
            for name, hint in hints.items()
        ]
    except Exception:  # an annotation may be any expression
        return []


class _Text(str):
    """The text of a value or an annotation, shown without quotes in a signature."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _written(signature: inspect.Signature) -> inspect.Signature:
    """The signature with texts in place of defaults and annotations."""
    empty = inspect.Signature.empty

    def annotation(value: Any) -> Any:
        if value is empty or isinstance(value, str):
            return value if value is empty else _Text(value)
        return _write(inspect.formatannotation, value)

    parameters = [
        parameter.replace(
            annotation=annotation(parameter.annotation),
            default=parameter.default
            if parameter.default is empty
            else _write(repr, parameter.default),
        )
        for parameter in signature.parameters.values()
    ]
    returned = annotation(signature.return_annotation)
    return signature.replace(parameters=parameters, return_annotation=returned)


def _write(write: Callable[[Any], str], value: Any) -> _Text:
    """The text of a value, or "<package.Type object at 0x...>" if it fails or is too long."""
    try:
        text = write(value)
    except (Exception, SystemExit):
        text = ""
    return _Text(text if 0 < len(text) <= _MAX_TEXT else object.__repr__(value))


def _parameter(written: inspect.Parameter, default: Any) -> Parameter:
    stars: dict[Any, str] = {written.VAR_POSITIONAL: "*", written.VAR_KEYWORD: "**"}
    has_default = default is not written.empty
    has_annotation = written.annotation is not written.empty
    star = stars.get(written.kind, "")
    return Parameter(
        name=star + written.name,
        classifier=_ADDRESS.sub("", written.annotation) if has_annotation else "",
        default=_json(default) if has_default else None,
        required=not has_default and not star,
    )


def _json(value: Any) -> Any:
    """The value if it is plain JSON that can be encoded, else None; calls no foreign type."""
    if type(value) not in (bool, int, float, str, list, tuple, dict):
        return None
    try:
        written = json.dumps(value, allow_nan=False, ensure_ascii=False)
        return json.loads(written.encode())
    except (TypeError, ValueError, RecursionError):
        return None


_BORROWED = "another name of a method of a class that is no base"
_DESCRIPTOR = "attribute of a descriptor that holds no function"
_NO_ARGUMENTS = "class that is made without arguments"


def read_package(config: PythonSource) -> ToolCollection:
    """Read the public functions, methods and classes of a package, or the kinds of its scope.

    The package is imported; of its objects, only the `repr` of default values is called.

    Raises:
        InputError: the package is not installed, can't be imported, or has no public tools.
    """
    source = f"python:{package_version(config.api_name)}"
    root = _import(config.api_name)
    scope = PackageScope.of(config)
    walk = walk_package(root, scope)
    taken: dict[str, Tool] = {}
    for kind, tool in _tools(walk, source):
        if kind in scope.kinds:
            taken.setdefault(tool.name, tool)
        else:
            walk.left_out.add(f"kind {kind}", tool.name)
    note = describe_left_out(
        walk.left_out, scope.kinds, walk.undocumented, methods=config.methods
    )
    if not taken:
        raise InputError(
            f"sources: the package {config.api_name} has no public functions or classes with "
            "a docstring. Name the module that has them (package: name.module), or list them "
            f"in its __all__ and add docstrings.{note and f' Found: {note}.'}"
        )
    skipped = dict(sorted(walk.left_out.counts.items()))
    examples = walk.left_out.examples
    return ToolCollection(
        tuple(taken[name] for name in sorted(taken)),
        {
            "source": source,
            "left_out": skipped,
            "left_out_examples": {reason: examples[reason] for reason in skipped},
            "undocumented": sorted(walk.undocumented),
        },
        problems=tuple(
            f"{source}: {count:,} skipped, {reason}: {', '.join(examples[reason])}"
            for reason, count in skipped.items()
            if reason.startswith("can't be")
        ),
        notes=(f"{source}: {note}",) if note else (),
    )


def _tools(walk: Walk, source: str) -> Iterator[tuple[Kind, Tool]]:
    """Yield all documented objects with their kinds, and the methods of classes.

    Methods of exceptions, enums and records are included only if these kinds are.
    """
    objects = sorted(walk.objects.values(), key=lambda item: item.name)
    holders = {"class", *walk.scope.kinds}
    classes = {
        id(item.value)
        for item in objects
        if item.kind == "class" and recipe_kind(item.value, "class") in holders
    }
    for item in objects:
        try:
            yield from [*_tools_of(item, classes, walk, source)]
        except Exception as error:  # a class of the package may raise anything
            reason = f"can't be read ({type(error).__name__})"
            walk.left_out.add(reason, item.name)
    for cls in walk.hidden.values():
        _count_hidden(cls, classes, walk)


def _tools_of(
    item: PublicObject, classes: Collection[int], walk: Walk, source: str
) -> Iterator[tuple[Kind, Tool]]:
    kind = recipe_kind(item.value, item.kind)
    is_parent = not walk.scope.parents.isdisjoint(item.names)
    if is_parent or walk.scope.leaves_out(*item.names):
        pass
    elif item.is_documented:
        tool = _tool(item, source)
        if (
            kind != "class"
            or walk.scope.every_class
            or _takes_arguments(item.value, tool)
        ):
            yield kind, tool
        else:
            walk.left_out.add(_NO_ARGUMENTS, tool.name)
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
                f"sources: the package {name} is not installed in toolbank's environment. "
                f"Install it (pip install {top}, or its name on the package index), or check "
                "the spelling: give the import name."
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


def _takes_arguments(cls: type, tool: Tool) -> bool:
    """Whether a class is created with arguments; a custom constructor without a signature is."""
    if vars(cls).get("_is_protocol"):
        return False
    if tool.signature or tool.parameters["properties"]:
        return bool(tool.parameters["properties"])
    constructors = (vars(base) for base in cls.__mro__ if base is not object)
    return any("__init__" in names or "__new__" in names for names in constructors)


def _methods(
    owner: PublicObject, classes: Collection[int], walk: Walk, source: str
) -> Iterator[tuple[Kind, Tool]]:
    def is_listed(base: type) -> bool:
        return id(base) in classes and not walk.is_deeper(base, owner.value)

    for name, value, kind in members(owner.value, is_listed):
        full = f"{owner.name}.{name}"
        text = own_docstring(value, kind)
        if walk.scope.leaves_out(*(f"{path}.{name}" for path in owner.names)):
            if kind in walk.scope.kinds:
                walk.left_out.add(EXCLUDED, full)
        elif value is None:
            walk.left_out.add(_DESCRIPTOR, full)
        elif _is_borrowed(value, owner.value, walk.lineage):
            walk.left_out.add(_BORROWED, full)
        elif is_marked_private(text):
            walk.left_out.add(MARKED_PRIVATE, full)
        elif not text.strip():
            walk.miss(full, kind, f"{kind} without documentation")
        else:
            yield kind, describe(full, kind, value, source)


def _is_borrowed(value: Any, cls: type, lineage: Set[int]) -> bool:
    """Whether a compiled method is that of another public class or of its base."""
    home = getattr(value, "__objclass__", cls)
    return home not in cls.__mro__ and id(home) in lineage


def _count_hidden(cls: type, classes: Collection[int], walk: Walk) -> None:
    if "method" not in walk.scope.kinds or recipe_kind(cls, "class") != "class":
        return
    for name, value, kind in members(cls, lambda base: id(base) in classes):
        if kind == "method" and own_docstring(value, kind).strip():
            full = f"{cls.__module__}.{cls.__qualname__}.{name}"
            walk.left_out.add(HIDDEN, full)


def describe(name: str, kind: ToolKind, value: Any, source: str = "") -> Tool:
    """Return the tool of a callable or another object, by its docstring and signature."""
    documented = read_docstring(own_docstring(value, kind))
    signature = Signature()
    if kind in ("function", "method", "class"):
        documented = _with_init(documented, value) if kind == "class" else documented
        signature = signature_of(value)
    documented = replace(
        documented, deprecated=documented.deprecated or deprecation_of(value)
    )
    return make_tool(name, kind, documented, signature, source)


def _with_init(documented: Documented, cls: Any) -> Documented:
    """Add the parameters of the docstring of `__init__` if the class documents none."""
    init = cls.__dict__.get("__init__")
    text = getattr(init, "__doc__", None)
    if documented.parameters or not isinstance(text, str):
        return documented
    return replace(documented, parameters=read_docstring(text).parameters)
