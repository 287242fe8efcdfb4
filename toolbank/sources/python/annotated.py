"""What an annotation says of a parameter besides its type."""

import ast
import inspect
from dataclasses import replace
from typing import Any

from toolbank.sources.typetext import Parameter, schema_of

_BOUNDS = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
}
"""Keywords of JSON Schema by the constraints of pydantic and `annotated_types`."""
WRAPPERS = ("Annotated", "Required", "NotRequired", "ReadOnly")
"""Names of `typing` that hold a type and say more of it."""


def told_by_annotation(parameter: Parameter) -> Parameter:
    """Return a parameter with the type that `Annotated` or `Required` wraps, and what it says.

    A text in `Annotated` (`"text"`, `Doc("text")`, `Field(description="text")`) is the description of a
    parameter without one. Bounds of numbers are in the schema. What describes only the items of a
    list, or is no literal, is skipped.
    """
    if not any(f"{name}[" in parameter.classifier for name in WRAPPERS):
        return parameter
    reader = _Reader()
    try:
        tree = ast.parse(parameter.classifier.strip(), mode="eval")
        classifier = ast.unparse(reader.visit(tree))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return parameter
    schema = parameter.schema
    if schema is None and reader.bounds:
        schema = schema_of(classifier)
        types = schema.get("type", "")
        is_number = "integer" in types or "number" in types
        schema = {**schema, **reader.bounds} if is_number else None
    return replace(
        parameter,
        classifier=classifier,
        description=parameter.description or reader.text,
        schema=schema,
    )


class _Reader(ast.NodeTransformer):
    """Puts the type in the place of each wrapper, and keeps what is said of the whole."""

    def __init__(self) -> None:
        self.text = ""
        self.bounds: dict[str, Any] = {}
        self._depth = 0

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        name = _last_name(node.value)
        is_within = name not in ("Optional", "Union")
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if name in WRAPPERS and parts:
            for part in parts[1:] if not self._depth else ():
                self._note(part)
            return self.visit(parts[0])  # type: ignore[no-any-return]
        self._depth += is_within
        self.generic_visit(node)
        self._depth -= is_within
        return node

    def _note(self, said: ast.expr) -> None:
        self.text = self.text or _text_of(said)
        for call in ast.walk(said):
            if isinstance(call, ast.Call):
                given = [(word.arg, word.value) for word in call.keywords]
                given += [(_last_name(call.func).lower(), one) for one in call.args[:1]]
                for key, value in given:
                    bound = _literal(value)
                    if key in _BOUNDS and type(bound) in (int, float):
                        self.bounds[_BOUNDS[key]] = bound


def _text_of(said: ast.expr) -> str:
    if isinstance(said, ast.Call):
        named = [one.value for one in said.keywords if one.arg == "description"]
        is_doc = _last_name(said.func) == "Doc"
        text = _literal(next(iter(named or (said.args if is_doc else ())), None))
    else:
        text = _literal(said)
    return inspect.cleandoc(text) if isinstance(text, str) else ""


def _last_name(node: ast.AST) -> str:
    """The name at the end of "a.b.name", else ""."""
    return str(getattr(node, "attr", getattr(node, "id", "")))


def _literal(node: ast.expr | None) -> Any:
    try:
        return None if node is None else ast.literal_eval(node)
    except (ValueError, TypeError, RecursionError, MemoryError):
        return None
