"""What an object of an installed package says of its own deprecation."""

from __future__ import annotations

import ast
import inspect
import textwrap
from types import CodeType
from typing import Any

from toolbank.sources.python.walk import text_of

_WARNINGS = {"DeprecationWarning", "FutureWarning", "PendingDeprecationWarning"}


def deprecation_of(value: Any) -> str:
    """The message of `warnings.deprecated` (PEP 702), or of the warning that every call gives."""
    return text_of(value, "__deprecated__") or _always_warns(value)


def _always_warns(value: Any) -> str:
    """What a function warns of as deprecated before all else, whatever it is called with."""
    try:
        function = inspect.unwrap(value)
        code = getattr(function, "__code__", None)
        if not isinstance(code, CodeType) or _WARNINGS.isdisjoint(code.co_names):
            return ""
        parsed = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    except (OSError, TypeError, ValueError, SyntaxError, IndexError):
        return ""
    for statement in getattr(parsed, "body", ()):
        match statement:
            case ast.Expr(
                ast.Call(args=[ast.Constant(str() as said), ast.Name(id=name), *_])
            ):
                if name in _WARNINGS:
                    return said
    return ""
