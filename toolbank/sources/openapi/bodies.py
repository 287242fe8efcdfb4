"""Bodies of requests: the content type that is taken, and what of it becomes parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from toolbank.bank.records import Place
from toolbank.sources.openapi.findings import Findings
from toolbank.sources.openapi.keywords import Schema
from toolbank.sources.openapi.media import choose, is_form, is_json
from toolbank.sources.openapi.objects import Flat, flatten
from toolbank.sources.openapi.path_items import Operation
from toolbank.sources.openapi.references import Node, References, UnresolvedError
from toolbank.sources.openapi.schemas import Schemas

_JSON = "application/json"
_ANY = ("*/*", "application/*")


@dataclass(frozen=True)
class Body:
    """The body of a request; `flat` are its properties, None where it is told as a whole.

    `styles` are the style, or else the content type, and `explode` of properties that say them.
    """

    content_type: str
    required: bool
    schema: Schema
    flat: Flat | None
    name: str = "body"
    styles: Mapping[str, tuple[str, bool | None]] = field(default_factory=dict)

    @property
    def place(self) -> Place:
        """Where it goes."""
        return "form" if is_form(self.content_type) else "body"


class BodyReader:
    """Reads bodies of OpenAPI, and those of Swagger 2.0 that are one parameter."""

    def __init__(
        self, schemas: Schemas, references: References, findings: Findings
    ) -> None:
        self._schemas = schemas
        self._references = references
        self._findings = findings

    def read(self, operation: Operation) -> Body | None:
        """The request body of an operation, None where it takes none."""
        listed = operation.node.child("requestBody")
        if listed.value is None:
            return None
        try:
            node = self._references.follow(listed)
        except UnresolvedError as error:
            self._findings.problem(
                f"the `$ref` of a request body {error}, and is left out", listed.place
            )
            return None
        contents = node.child("content").members()
        if not contents:
            self._findings.problem(
                "a request body without `content` is left out", node.place
            )
            return None
        content_type = choose(contents)
        listed = contents[content_type]
        try:
            media = self._references.follow(listed)
        except UnresolvedError as error:
            self._findings.problem(
                f"the `$ref` of a content type {error}, and is left out", listed.place
            )
            return None
        schema = read_media(content_type, media, self._schemas)
        body = self._body(
            content_type,
            schema,
            words=node,
            required=node.get("required") is True,
        )
        return replace(body, styles=_read_styles(media.child("encoding")))

    def read_parameter(self, node: Node, content_types: Sequence[str]) -> Body:
        """The body that a parameter of Swagger 2.0 describes."""
        schema = node.child("schema")
        name = node.get("name")
        return self._body(
            choose(content_types) or _JSON,
            self._schemas.read(schema) if schema.value is not None else {},
            words=node,
            required=node.get("required") is True,
            name=name if isinstance(name, str) and name else "body",
        )

    def _body(
        self,
        content_type: str,
        schema: Schema,
        *,
        words: Node,
        required: bool,
        name: str = "body",
    ) -> Body:
        flat = flatten(schema, self._schemas.target)
        if flat is not None and flat.rules and not required:
            flat = None  # they hold only where a body is given
        text = words.get("description")
        if isinstance(text, str) and text and "description" not in schema:
            schema = self._schemas.derive({**schema, "description": text}, [schema])
        sent = _JSON if content_type in _ANY else content_type
        return Body(sent, required, schema, flat, name)


def _read_styles(encoding: Node) -> dict[str, tuple[str, bool | None]]:
    found = {}
    for name, said in encoding.members().items():
        style = said.get("style") or said.get("contentType")
        explode = said.get("explode")
        found[name] = (
            style if isinstance(style, str) else "",
            explode if isinstance(explode, bool) else None,
        )
    return found


def read_media(content_type: str, media: Node, schemas: Schemas) -> Schema:
    """The schema of what is sent as a content type; without one, anything of JSON, or a text."""
    schema, item = media.child("schema"), media.child("itemSchema")
    if schema.value is not None:
        return schemas.read(schema)
    if item.value is not None:
        part = schemas.read(item)
        return schemas.derive({"type": "array", "items": part}, [part])
    if is_json(content_type) or is_form(content_type) or content_type in _ANY:
        return {}
    return {"type": "string"}
