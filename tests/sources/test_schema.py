"""Type texts as authors write them, read into JSON Schema."""

from __future__ import annotations

from typing import Any

import pytest

from toolbank.sources.schema import schema_of

TEXT = {"type": "string"}
ANY_LIST = {"type": "array", "format": "list-like"}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("{index (0), columns (1)}", {"enum": [0, "index", 1, "columns"]}),
        ("{{0 or 'index', 1}}", {"enum": [0, "index", 1]}),
        ("str {'a', 'b'}, default 'a'", {**TEXT, "enum": ["a", "b"], "default": "a"}),
        ("{'backfill'/'bfill'}", {**TEXT, "enum": ["backfill", "bfill"]}),
        ("list-like or None", {"anyOf": [ANY_LIST, {"type": "null"}]}),
        ("list-like of int", {"type": "array", "items": {"type": "integer"}}),
        ("dict-like", {"type": "object", "format": "dict-like"}),
        ("Index, optional", {"format": "Index"}),
        ("index", {"type": "integer", "format": "index"}),
        ("bool, default False, optional", {"type": "boolean", "default": False}),
    ],
)  # fmt: skip
def test_type_texts(words: str, expected: dict[str, Any]) -> None:
    assert schema_of(words) == expected
