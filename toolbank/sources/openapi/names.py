"""Names of operations: readable, and no two the same."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from toolbank.sources.openapi.findings import Findings
from toolbank.sources.openapi.path_items import Operation


def name_operations(operations: Sequence[Operation], findings: Findings) -> list[str]:
    """A name for each operation, of its operationId or else of its method and path.

    Those that would share a name have method and path behind it, whatever their order.
    """
    _note_repeated(operations, findings)
    plain = [_plain_name(operation) for operation in operations]
    counts = Counter(plain)
    names = [
        f"{name}_{_route_name(operation)}" if counts[name] > 1 else name
        for name, operation in zip(plain, operations, strict=True)
    ]
    return _numbered(names, operations)


def _plain_name(operation: Operation) -> str:
    said = operation.node.value.get("operationId")
    name = _clean(said) if isinstance(said, str) else ""
    return name or _route_name(operation)


def _route_name(operation: Operation) -> str:
    return _clean(f"{operation.method}_{operation.path}")


def _clean(text: str) -> str:
    """Letters, digits, `_`, `.` and `-`; all else becomes `_`."""
    return re.sub(r"_{2,}", "_", re.sub(r"[^\w.-]+", "_", text)).strip("_.-")


def _numbered(names: Sequence[str], operations: Sequence[Operation]) -> list[str]:
    """Names that are still the same (/a-b? and /a-b) get numbers, in the order of their routes."""
    order = sorted(range(len(names)), key=lambda i: (names[i], operations[i].route))
    named, taken, next_numbers = list(names), set(names), dict[str, int]()
    for index in order:
        name = names[index]
        number = next_numbers.get(name, 1)
        if number > 1:
            while f"{name}_{number}" in taken:
                number += 1
            named[index] = f"{name}_{number}"
        next_numbers[name] = number + 1
    return named


def _note_repeated(operations: Sequence[Operation], findings: Findings) -> None:
    said = [
        (operation.node.value.get("operationId"), operation) for operation in operations
    ]
    counts = Counter(name for name, _ in said if isinstance(name, str))
    for name, operation in said:
        if isinstance(name, str) and counts[name] > 1:
            what = f"the operationId {name[:80]!r} is given more than once"
            findings.note(what, operation.node.place)
