"""What an operation gives: the JSON of its first response that says it went well."""

from __future__ import annotations

import re
from collections.abc import Iterator

from toolbank.sources.openapi.bodies import read_media
from toolbank.sources.openapi.findings import Findings
from toolbank.sources.openapi.keywords import Schema
from toolbank.sources.openapi.media import choose, is_json
from toolbank.sources.openapi.path_items import Operation
from toolbank.sources.openapi.references import Node, References, UnresolvedError
from toolbank.sources.openapi.schemas import Schemas
from toolbank.sources.openapi.version import Version

_MOST = 100_000
"""Characters of the schemas that an output refers to: an API of objects that all refer to one another
would have all of them in each tool."""


class ResponseReader:
    """Reads responses; one that is not described leaves the output unknown."""

    def __init__(
        self,
        schemas: Schemas,
        references: References,
        findings: Findings,
        version: Version,
    ) -> None:
        self._schemas = schemas
        self._references = references
        self._findings = findings
        self._version = version

    def read(self, operation: Operation) -> Schema | None:
        """The JSON Schema of what an operation gives, with its `$defs`, where that is said."""
        responses = operation.node.child("responses")
        if not isinstance(responses.value, dict):
            self._findings.note(
                "an operation without `responses`", operation.node.place
            )
            return None
        for node in self._good(responses):
            schema = self._schema(node)
            if schema is not None:
                schema, place = self._schemas.target(schema), operation.node.place
                return self._schemas.complete(dict(schema), [schema], place, _MOST)
        return None

    def _good(self, responses: Node) -> Iterator[Node]:
        """The responses of 2xx, or where there are none, the default one."""
        nodes = responses.members()
        good = [
            code for code in nodes if re.fullmatch(r"2(\d\d|XX)", code, re.IGNORECASE)
        ]
        for code in good or ["default"]:
            if code not in nodes:
                continue
            try:
                node = self._references.follow(nodes[code])
            except UnresolvedError as error:
                what = f"the `$ref` of a response {error}, and is left out"
                self._findings.problem(what, nodes[code].place)
                continue
            yield node

    def _schema(self, node: Node) -> Schema | None:
        if self._version.is_swagger:
            schema = node.child("schema")
            return None if schema.value is None else self._schemas.read(schema)
        contents = {
            name: media
            for name, media in node.child("content").members().items()
            if is_json(name) or name in ("*/*", "application/*")
        }
        name = choose(contents)
        if not name:
            return None
        media = contents[name]
        if media.get("schema") is None and media.get("itemSchema") is None:
            return None
        return read_media(name, media, self._schemas)
