"""The address that a description proposes for an operation."""

from __future__ import annotations

import re
from urllib.parse import urljoin, urlsplit, urlunsplit

from toolbank.sources.openapi.path_items import Operation
from toolbank.sources.openapi.references import Node
from toolbank.sources.openapi.version import Version


def find_server(operation: Operation, root: Node, version: Version) -> str:
    """The first server of the operation, its path or the description, its variables filled.

    One that is relative starts at the description's address. It holds no name, password or
    query, which may be a key; "" where none is proposed.
    """
    own = operation.nearest("servers")
    if version.is_swagger:
        address = _swagger_server(operation, root)
    else:
        address = _server((own or root.child("servers")).child(0))
    place = (own.document if own else root.document).address
    if "://" in place:
        address = _join(place, address)
    return _without_secrets(address)


def _server(server: Node) -> str:
    address = server.get("url")
    if not isinstance(address, str):
        return ""
    for name, variable in server.child("variables").members().items():
        filled = variable.get("default")
        if filled is not None:
            address = address.replace(f"{{{name}}}", str(filled))
    return address


def _swagger_server(operation: Operation, root: Node) -> str:
    host, base = root.get("host"), root.get("basePath")
    path = base if isinstance(base, str) else ""
    if not isinstance(host, str) or not host:
        return path
    schemes = operation.node.get("schemes") or root.get("schemes")
    listed = schemes if isinstance(schemes, list) else []
    scheme = "http" if listed and "https" not in listed else "https"
    return f"{scheme}://{host}{path}"


def _join(place: str, address: str) -> str:
    try:
        return urljoin(place, address or "/") if "://" not in address else address
    except ValueError:
        return address


def _without_secrets(address: str) -> str:
    try:
        parts = urlsplit(address)
    except ValueError:
        return re.split("[?#]", re.sub(r"//[^/]*@", "//", address))[0]
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=host, query="", fragment=""))
