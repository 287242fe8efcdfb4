"""The sandbox of prompt templates."""

from __future__ import annotations

from collections.abc import Sized
from typing import Any

from jinja2.exceptions import SecurityError
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment

MOST_SIGNS = 10_000_000
"""A text of a template that is longer is a mistake: no model reads it, and memory may not hold it."""

_OF_DICTS = frozenset(dir(dict))
_OF_LOOPS = frozenset({"first", "index", "index0", "last", "length"})


class Sandbox(ImmutableSandboxedEnvironment):
    """Jinja's sandbox, quicker at what prompts are full of: keys of dictionaries, and loops.

    What is multiplied can't outgrow the memory.
    """

    intercepted_binops = frozenset({"*", "**"})

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """A product or power, refused where it would be too large.

        Raises:
            SecurityError: it is longer than `MOST_SIGNS`, or has that many digits.
        """
        if _size(operator, left, right) > MOST_SIGNS:
            raise SecurityError(f"{operator} gives more than {MOST_SIGNS:,} signs")
        return super().call_binop(context, operator, left, right)

    def getattr(self, obj: Any, attribute: str) -> Any:
        """What `obj.attribute` means in a template: the same as in Jinja's sandbox.

        That one would look for an attribute first and handle the error at each key, and ask
        whether each attribute is safe: half the time that a prompt takes.
        """
        if type(obj) is dict:
            if attribute in obj and attribute not in _OF_DICTS:
                return obj[attribute]
        elif type(obj) is LoopContext and attribute in _OF_LOOPS:
            return getattr(obj, attribute)
        return super().getattr(obj, attribute)


def _size(operator: str, left: Any, right: Any) -> int:
    """About how long `left` times or to the power of `right` is, where that follows from them."""
    if operator == "**" and isinstance(left, int) and isinstance(right, int):
        return left.bit_length() * max(right, 0) // 3
    for many, times in ((left, right), (right, left)):
        if isinstance(many, Sized) and isinstance(times, int):
            return len(many) * times
    return 0
