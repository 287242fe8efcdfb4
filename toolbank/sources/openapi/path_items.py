"""The operations of a description, with what their paths say for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from toolbank.sources.openapi.findings import Findings
from toolbank.sources.openapi.references import Node, References, UnresolvedError
from toolbank.sources.openapi.version import Version

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
    root: Node, references: References, version: Version, findings: Findings
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
    path: str, items: tuple[Node, ...], version: Version, findings: Findings
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
    version: Version,
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


def _methods(item: Node, version: Version) -> Iterator[tuple[str, Node]]:
    methods = _METHODS
    if (version.major, version.minor) >= (3, 2):
        methods = (*methods, "query")
    for key, node in item.members().items():
        if key.lower() in methods:
            yield key.lower(), node
    for key, node in item.child("additionalOperations").members().items():
        yield key.lower(), node
