"""Clean text, and keys as parts of JSON pointers (RFC 6901)."""

import re

# Of the C0 and C1 sets, ends of lines among them, those that turn the direction of writing, and
# halves of surrogate pairs.
_CONTROL = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def replace_surrogates(text: str) -> str:
    """The text with a question mark for each half of a surrogate pair.

    JSON can escape one, and no file can hold it.
    """
    return text.encode("utf-8", "replace").decode("utf-8")


def find_control_sign(text: str) -> str:
    """The first sign that steers a terminal, turns the writing or can be in no file; else "".

    Such as "U+001B".
    """
    found = _CONTROL.search(text)
    return f"U+{ord(found[0]):04X}" if found else ""


def escape(key: str) -> str:
    """A key as a part of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")


def unescape(part: str) -> str:
    """The key that a part of a JSON pointer stands for."""
    return part.replace("~1", "/").replace("~0", "~")
