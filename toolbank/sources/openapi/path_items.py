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
    """All operations under `paths`, in the order of the document.

    What stands there and is none, and what `webhooks` has, is counted as left out.
    """
    paths = root.child("paths")
    if paths.value is not None and not isinstance(paths.value, dict):
        findings.problem("`paths` is no object", paths.place)
    operations: list[Operation] = []
    for path, node in paths.members().items():
        if path.startswith("x-"):
            continue
        found: dict[str, Operation] = {}
        items = _follow_item(path, node, references, findings)
        for item in reversed(items):
            for method, said in _methods(item, version):
                found[method] = Operation(method, path, said, items)
        for operation in found.values():
            if isinstance(operation.node.value, dict):
                operations.append(operation)
            else:
                findings.problem("an operation that is no object", operation.node.place)
                findings.leave_out("operation that can't be read", operation.route)
    for name in root.child("webhooks").members():
        findings.leave_out("webhook, which the API calls", name)
    return operations


def _follow_item(
    path: str, node: Node, references: References, findings: Findings
) -> tuple[Node, ...]:
    """The path item, and before it what stands beside its reference to another place."""
    try:
        item = references.follow(node)
    except UnresolvedError as error:
        findings.problem(f"the `$ref` of a path {error}", node.place)
        findings.leave_out(_UNREADABLE, path)
        return ()
    if not isinstance(item.value, dict):
        findings.problem("a path that is no object", item.place)
        findings.leave_out(_UNREADABLE, path)
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
