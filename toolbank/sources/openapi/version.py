"""Which version of OpenAPI a document is of."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from toolbank.sources.openapi.findings import Findings
from toolbank.sources.openapi.references import Node
from toolbank.system.errors import InputError

_READ = "Swagger 2.0 and OpenAPI 3.0, 3.1 and 3.2 are read"
_OTHERS = {
    "asyncapi": "AsyncAPI",
    "arazzo": "Arazzo",
    "overlay": "an OpenAPI overlay",
    "discoveryVersion": "a description of Google's discovery service",
    "swaggerVersion": "Swagger 1",
    "mcpServers": "a configuration of MCP servers",
    "__schema": "a schema of GraphQL",
}
"""What other documents are told by."""


@dataclass(frozen=True)
class Version:
    """Major and minor number: (2, 0) is Swagger's, (3, 0) and later are OpenAPI's."""

    major: int
    minor: int

    @property
    def is_swagger(self) -> bool:
        """Whether parameters, bodies and servers are told in the way of Swagger 2.0."""
        return self.major == 2

    @property
    def has_json_schema(self) -> bool:
        """Whether schemas are JSON Schema 2020-12, as from OpenAPI 3.1 on."""
        return (self.major, self.minor) >= (3, 1)


def read_version(root: Node, findings: Findings) -> Version:
    """The version of a document.

    Raises:
        InputError: it is of another version, or no description of OpenAPI at all.
    """
    content, address = root.value, root.document.address
    if not isinstance(content, dict):
        raise InputError(
            f"{address}: holds no OpenAPI description (it is {_kind(content)}, and should be "
            "an object with `openapi` and `paths`). Give the file that has them."
        )
    key = "openapi" if "openapi" in content else "swagger"
    if key not in content:
        raise InputError(
            f"{address}: holds no OpenAPI description ({_guess(content)}). {_READ}; give a "
            "file of one of them."
        )
    said = str(content[key])
    found = re.match(r"(\d{1,4})(?:\.(\d{1,4}))?", said)
    version = Version(int(found[1]), int(found[2] or 0)) if found else Version(0, 0)
    if version.major != (3 if key == "openapi" else 2):
        raise InputError(
            f"{address}#/{key}: the version {said[:40]!r} can't be read. {_READ}; convert "
            "the file to one of them."
        )
    if version.minor > (0 if version.is_swagger else 2):
        findings.note(f"the version {said[:40]} is new; read as 3.2", root.place)
    return version


def _guess(content: dict[str, Any]) -> str:
    for key, name in _OTHERS.items():
        if key in content:
            return f"it looks like {name}"
    if "postman" in str(content.get("info")):
        return "it looks like a Postman collection"
    if "paths" in content:
        return "it has `paths`, but no `openapi` that says the version"
    return "it has neither `openapi` nor `swagger`"


def _kind(content: Any) -> str:
    if content is None:
        return "empty"
    return "a list" if isinstance(content, list) else "a text or number"
