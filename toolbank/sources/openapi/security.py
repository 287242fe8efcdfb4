"""Which security schemes an operation takes, and what of a request is theirs."""

from __future__ import annotations

from typing import Any

from toolbank.sources.openapi.path_items import Operation
from toolbank.sources.openapi.references import Node, References, UnresolvedError
from toolbank.sources.openapi.version import Version


def list_security(operation: Operation, root: Node) -> tuple[tuple[str, ...], ...]:
    """The groups of schemes that the operation says, or else the description."""
    own = operation.node.get("security")
    listed = own if isinstance(own, list) else root.get("security")
    groups = listed if isinstance(listed, list) else []
    return tuple(tuple(map(str, group)) for group in groups if isinstance(group, dict))


def find_credentials(
    root: Node, references: References, version: Version
) -> frozenset[tuple[str, str]]:
    """Place and name of the keys that security schemes send."""
    where = (
        ("securityDefinitions",)
        if version.is_swagger
        else ("components", "securitySchemes")
    )
    found = set()
    for listed in root.child(*where).members().values():
        try:
            scheme: Any = references.follow(listed).value
        except UnresolvedError:
            continue
        if isinstance(scheme, dict) and scheme.get("type") == "apiKey":
            place, name = scheme.get("in"), str(scheme.get("name"))
            found.add((str(place), name.lower() if place == "header" else name))
    return frozenset(found)
