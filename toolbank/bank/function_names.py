"""Names that function-calling APIs take: at most 64 letters, digits, `_` and `-`."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection

_LONGEST_FUNCTION_NAME = 64
_DIGITS = (8, 16, 32, 56)
"""Of the hash that a name ends in where it would be another's; the last are never two tools'."""


def function_name(name: str) -> str:
    """A tool's name with dots as `_`; one with other signs, or too long, ends in a hash of it."""
    plain = name.replace(".", "_")
    if re.fullmatch(r"[a-zA-Z0-9_-]{0,64}", plain):
        return plain
    return hashed_name(name)


def hashed_name(name: str, digits: int = _DIGITS[0]) -> str:
    """A tool's name with all other signs as `_`, ending in so many hex digits of its hash."""
    legal = re.sub(r"[^a-zA-Z0-9_-]", "_", name)
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{legal[: _LONGEST_FUNCTION_NAME - 1 - digits]}_{digest[:digits]}"


def name_functions(names: Collection[str]) -> dict[str, str]:
    """The name that each tool has as a function, by the tools' names; no two are the same.

    Where several would have one, each of them ends in a hash instead, so that their order makes
    no difference.
    """
    found = {name: function_name(name) for name in names}
    for digits in _DIGITS:
        counts = Counter(found.values())
        for name in found:
            if counts[found[name]] > 1:
                found[name] = hashed_name(name, digits)
    return found
