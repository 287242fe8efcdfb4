"""The operations of a description and their parameters."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from toolbank.bank.records import Argument, Place
from toolbank.sources.openapi.references import (
    Findings,
    Node,
    References,
    UnresolvedError,
    reference_of,
)
from toolbank.sources.openapi.schemas import Schemas
from toolbank.sources.openapi.texts import plain_text
from toolbank.sources.openapi.translation import Schema

_METHODS = (*("get", "put", "post", "delete", "options", "head"), "patch", "trace")
_ANY_METHOD = "x-amazon-apigateway-any-method"
_UNREADABLE_PATH = "path that can't be read"
_TYPES: dict[str, tuple[type, str]] = {
    **dict.fromkeys(("summary", "description", "operationId"), (str, "a text")),
    **dict.fromkeys(("tags", "parameters", "security", "servers"), (list, "a list")),
    **dict.fromkeys(("callbacks", "responses"), (dict, "an object")),
}
"""The type that the value of a key of a path or an operation must have."""


@dataclass(frozen=True)
class Operation:
    """An operation: `node` is its object, `items` are the objects of its path, nearest first."""

    method: str
    path: str
    node: Node
    items: tuple[Node, ...]

    @property
    def route(self) -> str:
        """Method and path, such as GET /pets/{id}."""
        return f"{self.method.upper()} {self.path}"


def list_operations(references: References) -> list[Operation]:
    """List all operations under `paths` and Azure's `x-ms-paths`, in the document's order.

    Unreadable operations and those that the API calls (webhooks, callbacks) are counted as
    left out.
    """
    findings = references.findings
    operations: list[Operation] = []
    for key in ("paths", "x-ms-paths"):
        paths = references.root.child(key)
        members = references.members(paths)
        if paths.value is not None and not isinstance(paths.value, dict):
            findings.problem(f"`{key}` is not an object", paths.place)
        for path, node in members.items():
            if not path.startswith("x-"):
                items = _follow_item(path, node, references)
                operations += _operations(path, items, references)
    _count_calls_of_the_api(operations, references)
    return operations


def _operations(
    path: str, items: tuple[Node, ...], references: References
) -> Iterator[Operation]:
    """Operations next to a path's reference replace those that it leads to."""
    findings = references.findings
    operations: dict[str, Operation] = {}
    for item in reversed(items):
        _check_types(item, references)
        if _ANY_METHOD in item.value:
            reason = f"operation of any method ({_ANY_METHOD})"
            findings.left_out.add(reason, path)
        own: dict[str, Operation] = {}
        for method, node in _methods(item, references):
            if method in own:
                reason = "operation whose path has its method twice; the first counts"
                findings.left_out.add(reason, own[method].route)
            else:
                own[method] = Operation(method, path, node, items)
        operations |= own
    for operation in operations.values():
        found = _follow_operation(operation.node, references)
        if found is None:
            findings.left_out.add("operation that can't be read", operation.route)
        else:
            _check_types(found, references)
            yield replace(operation, node=found)


def _follow_object(node: Node, what: str, references: References) -> Node | None:
    """The object of a path or an operation; None if there is none."""
    found = references.follow_or_report(node, what)
    if found and not isinstance(found.value, dict):
        references.findings.problem(f"{what} that is not an object", found.place)
        return None
    return found


def _follow_operation(node: Node, references: References) -> Node | None:
    """The object of an operation; keys next to a reference replace those of its target."""
    found = _follow_object(node, "an operation", references)
    if found is None or found.key == node.key:
        return found
    own = {key: value for key, value in node.value.items() if key != "$ref"}
    return found._replace(value={**found.value, **own})


def _check_types(node: Node, references: References) -> None:
    """Report the values of a wrong type in a path or an operation; they are not read."""
    for key, (kind, called) in _TYPES.items():
        value = node.value.get(key)
        if value is None or (isinstance(value, kind) and reference_of(value) is None):
            continue
        inner = references.follow_or_report(node.child(key), f"a value of `{key}`")
        if inner and not isinstance(inner.value, kind):
            references.findings.problem(f"`{key}` is not {called}", inner.place)


def _count_calls_of_the_api(
    operations: list[Operation], references: References
) -> None:
    """Count the operations that the API calls: they are not tools."""

    def count(what: str, name: str, listed: Node) -> None:
        item = references.follow_or_report(listed, f"a {what}")
        for method, _ in _methods(item, references) if item else ():
            reason = f"{what}, which the API calls"
            references.findings.left_out.add(reason, f"{method.upper()} {name}")

    for key in ("webhooks", "x-webhooks"):
        for name, item in references.members(references.root.child(key)).items():
            count("webhook", name, item)
    for operation in operations:
        callbacks = references.child(operation.node, "callbacks")
        for name, listed in callbacks.members().items():
            callback = references.follow_or_report(listed, "a callback")
            for item in callback.members().values() if callback else ():
                count("callback", f"{name} of {operation.route}", item)


def _follow_item(path: str, node: Node, references: References) -> tuple[Node, ...]:
    """The path item; if it is a reference, before it what is next to the reference."""
    item = _follow_object(node, "a path", references)
    if item is None:
        references.findings.left_out.add(_UNREADABLE_PATH, path)
        return ()
    return (item,) if item.key == node.key else (node, item)


def _methods(item: Node, references: References) -> Iterator[tuple[str, Node]]:
    methods = (*_METHODS, "query") if references.version >= (3, 2) else _METHODS
    for key, node in item.members().items():
        if key.lower() in methods:
            yield key.lower(), node
    for key, node in references.child(item, "additionalOperations").members().items():
        yield key.lower(), node


_PLACES: dict[str, Place] = {
    "path": "path",
    "query": "query",
    "querystring": "query",
    "header": "header",
    "cookie": "cookie",
    "formData": "form",
}
_OWN_HEADERS = {"accept", "content-type", "authorization"}
"""Headers that content types and security schemes set."""

_COLLECTIONS: dict[str, tuple[str, bool]] = {
    "ssv": ("spaceDelimited", False),
    "tsv": ("tabDelimited", False),
    "pipes": ("pipeDelimited", False),
    "multi": ("form", True),
}
"""Style and explode of each `collectionFormat` of Swagger; without one, it is commas (csv)."""

_NO_SCHEMA = frozenset({"name", "in", "required", "description", "deprecated"})


@dataclass(frozen=True)
class OperationParameter:
    """A parameter and its translated schema; its name is "" for a whole query string."""

    argument: Argument
    schema: Schema
    required: bool


class ParameterReader:
    """Reads parameters; those that several operations share are read once.

    A parameter that a security scheme sends is not for a model to give.
    """

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas
        self._references = schemas.references
        self._findings = schemas.references.findings
        self._credentials = _find_credentials(schemas.references)
        self._read: dict[tuple[str, str, str], OperationParameter | None] = {}

    def read(self, operation: Operation) -> tuple[list[OperationParameter], list[Node]]:
        """Read the parameters in order; those of the operation replace the path's.

        The second value are the nodes of Swagger 2.0's parameters with `in: body`.
        """
        parameters: dict[tuple[str, str], OperationParameter] = {}
        lists: dict[tuple[str, str], str] = {}
        bodies: list[Node] = []
        for listed, node in self._listed(operation):
            if self._references.is_swagger and node.get("in") == "body":
                bodies.append(node)
                continue
            parameter = self._once(node)
            if parameter is not None:
                key = (parameter.argument.place, _identity(node))
                holder = listed.place
                holder = holder.rpartition("/")[0]
                if lists.get(key) == holder:
                    what = "a parameter is listed twice, of which the last counts"
                    self._findings.note(what, listed.place)
                parameters[key], lists[key] = parameter, holder
        return _fit_path(operation.path, parameters), bodies

    def _listed(self, operation: Operation) -> Iterator[tuple[Node, Node]]:
        """The entries of the path's list, then the operation's, and the parameters there."""
        follow = self._references.follow_or_report
        for holder in (*reversed(operation.items), operation.node):
            for listed in self._references.child(holder, "parameters").elements():
                node = follow(listed, "a parameter")
                if node is None:
                    continue
                if not isinstance(node.value, list):
                    yield listed, node
                    continue
                for part in node.elements():
                    if found := follow(part, "a parameter"):
                        yield listed, found

    def _once(self, node: Node) -> OperationParameter | None:
        key = (*node.key, str(node.get("description")))
        if key not in self._read:
            self._read[key] = self._parameter(node)
        return self._read[key]

    def _parameter(self, node: Node) -> OperationParameter | None:
        name, place = node.get("name"), node.get("in")
        if not isinstance(name, str) or not name or place not in _PLACES:
            self._findings.problem(
                "a parameter without a `name` or a place (`in`); it is skipped",
                node.place,
            )
            return None
        identity = _identity(node)
        if (place == "header" and identity in _OWN_HEADERS) or (
            (place, identity) in self._credentials
        ):
            return None
        style, explode = self._style(node)
        argument = Argument(
            property=name,
            place=_PLACES[place],
            name="" if place == "querystring" else name,
            style=place if place == "querystring" else style,
            explode=explode,
        )
        schema = self._schema(node)
        required = place == "path" or self._findings.flag(node, "required") is True
        return OperationParameter(argument, schema, required)

    def _style(self, node: Node) -> tuple[str, bool | None]:
        if self._references.is_swagger:
            unsaid = ("", False if node.get("type") == "array" else None)
            return _COLLECTIONS.get(str(node.get("collectionFormat")), unsaid)
        own = next(iter(self._references.members(node.child("content"))), "")
        return read_style(own, node, self._findings)

    def _schema(self, node: Node) -> Schema:
        """The schema with the description, examples and deprecation of the parameter."""
        own = self._schemas.read(self._own_schema(node))
        said: dict[str, Any] = {}
        if description := plain_text(node.get("description")):
            said["description"] = description
        if self._findings.flag(node, "deprecated"):
            said["deprecated"] = True
        if "examples" not in own and (examples := self._examples(node)):
            said["examples"] = examples
        return self._schemas.derive({**own, **said}, [own]) if said else own

    def _own_schema(self, node: Node) -> Node:
        if self._references.is_swagger:
            value = {k: v for k, v in node.value.items() if k not in _NO_SCHEMA}
            return Node(value, node.document, node.pointer)
        schema = node.child("schema")
        if schema.value is None:
            contents = self._references.members(node.child("content"))
            for listed in [*contents.values()][:1]:
                media = self._references.follow_or_report(listed, "a content type")
                schema = media.child("schema") if media else schema
        return schema if schema.value is not None else schema._replace(value=True)

    def _examples(self, node: Node) -> list[Any]:
        if "example" in node.value:
            return [node.value["example"]]
        if "examples" not in node.value:
            return []
        listed = self._references.members(node.child("examples")).values()
        followed = (
            self._references.follow_or_report(one, "an example") for one in listed
        )
        examples = (
            example.value["value"]
            for example in followed
            if example and isinstance(example.value, dict) and "value" in example.value
        )
        different = {json.dumps(value): value for value in examples}
        return [*different.values()]


def _find_credentials(references: References) -> set[tuple[str, str]]:
    """Find place and name of the keys that security schemes send."""
    schemes = references.root.child("components").child("securitySchemes")
    if references.is_swagger:
        schemes = references.root.child("securityDefinitions")
    found = set()
    for listed in references.members(schemes).values():
        with suppress(UnresolvedError):
            scheme = references.follow(listed)
            if scheme.get("type") == "apiKey":
                place, name = scheme.get("in"), str(scheme.get("name"))
                found.add((str(place), name.lower() if place == "header" else name))
    return found


def read_style(own: Any, node: Node, findings: Findings) -> tuple[str, bool | None]:
    """Read style and explode of a parameter or a property; `own` replaces the style."""
    style = own or node.get("style")
    return style if isinstance(style, str) else "", findings.flag(node, "explode")


def _identity(node: Node) -> str:
    """The name that is unique in its place; header names have no case."""
    name: str = node.get("name")
    return name.lower() if node.get("in") == "header" else name


_IN_BRACES = re.compile(r"\{((?:[^{}]|\{[^{}]*\})+)\}")
_DECORATED = re.compile(r"[+#./;?&*]*+([\w.-]+?)(?:[*+?]|\.\.\.|[:=].*)?")
"""A name as frameworks write it: {proxy+}, {*path}, {id:[0-9]+}, {name=projects/*}."""


def _fit_path(
    path: str, known: dict[tuple[str, str], OperationParameter]
) -> list[OperationParameter]:
    """Give parameters the names in the path's braces; those that are not described are texts."""
    names = dict.fromkeys(_IN_BRACES.findall(path))
    for name in names:
        if ("path", name) not in known:
            decorated = _DECORATED.fullmatch(name)
            plain = decorated[1] if decorated else name
            if plain not in names or plain == name:
                argument = Argument(property=plain, place="path", name=name)
                text = OperationParameter(argument, {"type": "string"}, True)
                parameter = known.get(("path", plain), text)
                argument = parameter.argument.model_copy(update={"name": name})
                known["path", plain] = replace(parameter, argument=argument)
    return [*known.values()]
