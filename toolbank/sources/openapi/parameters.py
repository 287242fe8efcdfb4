"""The parameters of operations: what stands in paths, queries, headers and cookies."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from toolbank.bank.records import Place
from toolbank.sources.openapi.findings import Findings
from toolbank.sources.openapi.keywords import Schema
from toolbank.sources.openapi.path_items import Operation
from toolbank.sources.openapi.references import Node, References, UnresolvedError
from toolbank.sources.openapi.schemas import Schemas
from toolbank.sources.openapi.version import Version

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
class Parameter:
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
        version: Version,
        credentials: frozenset[tuple[str, str]],
    ) -> None:
        self._schemas = schemas
        self._references = references
        self._findings = findings
        self._version = version
        self._credentials = credentials
        self._read: dict[tuple[str, str, str], Parameter | None] = {}

    def read(self, operation: Operation) -> tuple[list[Parameter], list[Node]]:
        """Parameters in their order, those of the operation in place of the path's.

        And of Swagger 2.0 the nodes of those with `in: body`.
        """
        found: dict[tuple[str, str], Parameter] = {}
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

    def _once(self, node: Node) -> Parameter | None:
        key = (*node.key, str(node.get("description")))
        if key not in self._read:
            self._read[key] = self._parameter(node)
        return self._read[key]

    def _parameter(self, node: Node) -> Parameter | None:
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
        return Parameter(
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
    operation: Operation, found: dict[tuple[str, str], Parameter]
) -> list[Parameter]:
    """The names in a path's braces that no parameter is described for: they are texts."""
    names = re.findall(r"\{([^{}/]+)\}", operation.path)
    return [
        Parameter(name, "path", name, {"type": "string"}, required=True)
        for name in dict.fromkeys(names)
        if ("path", name) not in found
    ]
