"""The operations of a description and their parameters."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from toolbank.bank.records import Place
from toolbank.sources.openapi.references import (
    Findings,
    Node,
    OpenApiVersion,
    References,
    UnresolvedError,
)
from toolbank.sources.openapi.schemas import Schemas
from toolbank.sources.openapi.translation import Schema

_METHODS: tuple[str, ...] = (
    "get",
    "put",
    "post",
    "delete",
    "options",
    "head",
    "patch",
    "trace",
)
_UNREADABLE = "path that can't be read"
_TYPES: tuple[tuple[str, type, str], ...] = (
    ("summary", str, "no text"),
    ("description", str, "no text"),
    ("operationId", str, "no text"),
    ("deprecated", bool, "neither true nor false"),
    ("tags", list, "no list"),
    ("parameters", list, "no list"),
    ("security", list, "no list"),
    ("servers", list, "no list"),
    ("callbacks", dict, "no object"),
)
"""What a path or an operation says under a key has to be of a type."""


@dataclass(frozen=True)
class Operation:
    """An operation: `node` is its object, `items` what its path says, the nearest first."""

    method: str
    path: str
    node: Node
    items: tuple[Node, ...]

    @property
    def route(self) -> str:
        """Method and path, such as GET /pets/{id}."""
        return f"{self.method.upper()} {self.path}"

    def parameters(self) -> Iterator[Node]:
        """What the path and then the operation list as parameters."""
        for node in (*reversed(self.items), self.node):
            yield from node.child("parameters").elements()

    def nearest(self, key: str) -> Node | None:
        """What the operation, or else its path, says under a key."""
        nodes = (self.node, *self.items)
        return next((node.child(key) for node in nodes if node.get(key)), None)


def list_operations(
    root: Node, references: References, version: OpenApiVersion, findings: Findings
) -> list[Operation]:
    """All operations under `paths`, in the order of the document; Azure has `x-ms-paths`, too.

    What stands there and is none, and what the API calls (webhooks, callbacks), is counted as
    left out.
    """
    operations: list[Operation] = []
    for key in ("paths", "x-ms-paths"):
        paths = root.child(key)
        if paths.value is not None and not isinstance(paths.value, dict):
            findings.problem(f"`{key}` is no object", paths.place)
        for path, node in paths.members().items():
            if not path.startswith("x-"):
                items = _follow_item(path, node, references, findings)
                operations += _operations(path, items, version, findings)
    _leave_out_calls(root, operations, references, version, findings)
    return operations


def _operations(
    path: str, items: tuple[Node, ...], version: OpenApiVersion, findings: Findings
) -> Iterator[Operation]:
    """The operations of a path, those beside its reference in place of those that it leads to."""
    found: dict[str, Operation] = {}
    for item in reversed(items):
        _check_types(item, findings)
        own: dict[str, Operation] = {}
        for method, said in _methods(item, version):
            if method in own:
                reason = "operation whose path has its method twice; the first counts"
                findings.left_out.add(reason, own[method].route)
            else:
                own[method] = Operation(method, path, said, items)
        found |= own
    for operation in found.values():
        if isinstance(operation.node.value, dict):
            _check_types(operation.node, findings)
            yield operation
        else:
            findings.problem("an operation that is no object", operation.node.place)
            findings.left_out.add("operation that can't be read", operation.route)


def _check_types(node: Node, findings: Findings) -> None:
    """Tell what a path or an operation says in a wrong type, which is not read."""
    for key, kind, called in _TYPES:
        said = node.value.get(key)
        if said is not None and not isinstance(said, kind):
            findings.problem(f"`{key}` is {called}", node.child(key).place)
    for tag in node.child("tags").elements():
        if not isinstance(tag.value, str):
            findings.problem("a tag is no text", tag.place)


def _leave_out_calls(
    root: Node,
    operations: list[Operation],
    references: References,
    version: OpenApiVersion,
    findings: Findings,
) -> None:
    """Count what a description has the API call: the other side's operations, and no tools."""

    def leave_out(what: str, name: str, listed: Node) -> None:
        for method, _ in _methods(_end_of(listed, what, references, findings), version):
            reason = f"{what}, which the API calls"
            findings.left_out.add(reason, f"{method.upper()} {name}")

    for key in ("webhooks", "x-webhooks"):
        for name, item in root.child(key).members().items():
            leave_out("webhook", name, item)
    for operation in operations:
        for name, listed in operation.node.child("callbacks").members().items():
            callback = _end_of(listed, "callback", references, findings)
            for item in callback.members().values():
                leave_out("callback", f"{name} of {operation.route}", item)


def _end_of(node: Node, what: str, references: References, findings: Findings) -> Node:
    """What a reference leads to, and nothing where it leads nowhere, which is told."""
    try:
        return references.follow(node)
    except UnresolvedError as error:
        findings.problem(f"the `$ref` of a {what} {error}", node.place)
        return Node(None, node.document, node.pointer)


def _follow_item(
    path: str, node: Node, references: References, findings: Findings
) -> tuple[Node, ...]:
    """The path item, and before it what stands beside its reference to another place."""
    try:
        item = references.follow(node)
    except UnresolvedError as error:
        findings.problem(f"the `$ref` of a path {error}", node.place)
        findings.left_out.add(_UNREADABLE, path)
        return ()
    if not isinstance(item.value, dict):
        findings.problem("a path that is no object", item.place)
        findings.left_out.add(_UNREADABLE, path)
        return ()
    return (item,) if item.key == node.key else (node, item)


def _methods(item: Node, version: OpenApiVersion) -> Iterator[tuple[str, Node]]:
    methods = _METHODS
    if (version.major, version.minor) >= (3, 2):
        methods = (*methods, "query")
    for key, node in item.members().items():
        if key.lower() in methods:
            yield key.lower(), node
    for key, node in item.child("additionalOperations").members().items():
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
"""Headers that a caller sets by content types and security schemes."""

_COLLECTIONS: dict[str, tuple[str, bool]] = {
    "csv": ("", False),
    "ssv": ("spaceDelimited", False),
    "tsv": ("tabDelimited", False),
    "pipes": ("pipeDelimited", False),
    "multi": ("form", True),
}
"""What Swagger's `collectionFormat` is as style and explode."""

_NO_SCHEMA = frozenset({"name", "in", "required", "description", "deprecated"})


@dataclass(frozen=True)
class OperationParameter:
    """A parameter and its translated schema; `name` "" is for a whole query string."""

    property: str
    place: Place
    name: str
    schema: Schema
    required: bool
    style: str = ""
    explode: bool | None = None


class ParameterReader:
    """Reads parameters, those that several operations share once.

    `credentials`: place and name of the keys that security schemes send; a parameter that is one
    is not for a model to give.
    """

    def __init__(
        self,
        schemas: Schemas,
        references: References,
        findings: Findings,
        version: OpenApiVersion,
        credentials: frozenset[tuple[str, str]],
    ) -> None:
        self._schemas = schemas
        self._references = references
        self._findings = findings
        self._version = version
        self._credentials = credentials
        self._read: dict[tuple[str, str, str], OperationParameter | None] = {}

    def read(self, operation: Operation) -> tuple[list[OperationParameter], list[Node]]:
        """Parameters in their order, those of the operation in place of the path's.

        And of Swagger 2.0 the nodes of those with `in: body`.
        """
        found: dict[tuple[str, str], OperationParameter] = {}
        lists: dict[tuple[str, str], str] = {}
        bodies: list[Node] = []
        for listed in operation.parameters():
            try:
                node = self._references.follow(listed)
            except UnresolvedError as error:
                self._findings.problem(
                    f"the `$ref` of a parameter {error}, and is left out", listed.place
                )
                continue
            if self._version.is_swagger and node.get("in") == "body":
                bodies.append(node)
                continue
            parameter = self._once(node)
            if parameter is not None:
                key, holder = (parameter.place, _as_told(node)), listed.place
                holder = holder.rpartition("/")[0]
                if lists.get(key) == holder:
                    what = (
                        "a parameter that its list has twice, of which the last counts"
                    )
                    self._findings.note(what, listed.place)
                found[key], lists[key] = parameter, holder
        return [*found.values(), *_undeclared(operation, found)], bodies

    def _once(self, node: Node) -> OperationParameter | None:
        key = (*node.key, str(node.get("description")))
        if key not in self._read:
            self._read[key] = self._parameter(node)
        return self._read[key]

    def _parameter(self, node: Node) -> OperationParameter | None:
        name, place = node.get("name"), node.get("in")
        if not isinstance(name, str) or not name or place not in _PLACES:
            self._findings.problem(
                "a parameter without a `name` or a place (`in`) is left out", node.place
            )
            return None
        told = _as_told(node)
        if (place == "header" and told in _OWN_HEADERS) or (
            (place, told) in self._credentials
        ):
            return None
        style, explode = self._style(node)
        return OperationParameter(
            property=name,
            place=_PLACES[place],
            name="" if place == "querystring" else name,
            schema=self._schema(node),
            required=place == "path" or node.get("required") is True,
            style=place if place == "querystring" else style,
            explode=explode,
        )

    def _style(self, node: Node) -> tuple[str, bool | None]:
        if self._version.is_swagger:
            said = node.get("collectionFormat")
            return (
                _COLLECTIONS.get(said, ("", None))
                if isinstance(said, str)
                else ("", None)
            )
        style, explode = node.get("style"), node.get("explode")
        if contents := node.child("content").members():
            style = next(iter(contents))
        return (
            style if isinstance(style, str) else "",
            explode if isinstance(explode, bool) else None,
        )

    def _schema(self, node: Node) -> Schema:
        """The schema with what the parameter itself says: words, examples, whether deprecated."""
        own = self._schemas.read(self._own_schema(node))
        said: dict[str, Any] = {}
        description = node.get("description")
        if isinstance(description, str) and description:
            said["description"] = description
        if node.get("deprecated") is True:
            said["deprecated"] = True
        if "examples" not in own and (examples := _examples(node)):
            said["examples"] = examples
        return self._schemas.derive({**own, **said}, [own]) if said else own

    def _own_schema(self, node: Node) -> Node:
        if self._version.is_swagger:
            value = {k: v for k, v in node.value.items() if k not in _NO_SCHEMA}
            return Node(value, node.document, node.pointer)
        schema = node.child("schema")
        if schema.value is None:
            contents = [*node.child("content").members().values()]
            schema = contents[0].child("schema") if contents else schema
        return schema if schema.value is not None else schema._replace(value=True)


def _as_told(node: Node) -> str:
    """The name by which a parameter is told from others of its place; case counts in no header."""
    name: str = node.get("name")
    return name.lower() if node.get("in") == "header" else name


def _examples(node: Node) -> list[Any]:
    if "example" in node.value:
        return [node.value["example"]]
    examples = (
        example.value["value"]
        for example in node.child("examples").members().values()
        if isinstance(example.value, dict) and "value" in example.value
    )
    different = {json.dumps(value): value for value in examples}
    return [*different.values()]


def _undeclared(
    operation: Operation, found: dict[tuple[str, str], OperationParameter]
) -> list[OperationParameter]:
    """The names in a path's braces that no parameter is described for: they are texts."""
    names = re.findall(r"\{([^{}/]+)\}", operation.path)
    return [
        OperationParameter(name, "path", name, {"type": "string"}, required=True)
        for name in dict.fromkeys(names)
        if ("path", name) not in found
    ]
