"""The "Request Syntax" of a page: a call or a value written in placeholders, as a JSON Schema."""

import re
from typing import Any

_SYMBOL = re.compile(
    r"""(?P<skipped>\s+|\#[^\n]*)
    |(?P<string>b?'(?:[^'\\\n]|\\.)*'|b?"(?:[^"\\\n]|\\.)*")
    |(?P<number>-?\d[\w.]*)
    |(?P<word>[^\W\d][\w.]*)
    |(?P<mark>.)""",
    re.X | re.S,
)
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_PLACEHOLDERS = frozenset({"'string'", '"string"'})
_WORDS: dict[str, dict[str, Any]] = {
    "True": {"type": "boolean"},
    "False": {"type": "boolean"},
    "datetime": {"type": "string", "format": "date-time"},
}
_MAX_SYNTAX_DEPTH = 40
_MAX_LENGTH = 1_000_000


def read_syntax(text: str) -> dict[str, Any]:
    """The schema of a call's arguments, "client.f(A='string', B={'C': 'x'|'y'})", or of a value.

    `'x'|'y'` gives an enum, a dictionary with the key 'string' a map. What is not understood, or
    nested more than 40 levels deep, gives an empty schema.
    """
    return _Reader(text[:_MAX_LENGTH]).read()


class _Reader:
    """Reads symbols from left to right, each once."""

    def __init__(self, text: str) -> None:
        self._symbols = [
            match[0] for match in _SYMBOL.finditer(text) if match.lastgroup != "skipped"
        ]
        self._position = 0

    def read(self) -> dict[str, Any]:
        opening = (
            self._symbols.index("(") if "(" in self._symbols else len(self._symbols)
        )
        if "{" not in self._symbols[:opening] and opening < len(self._symbols):
            self._position = opening + 1
            return self._object(")", 0)
        return self._value(0)

    def _peek(self) -> str:
        position = self._position
        return self._symbols[position] if position < len(self._symbols) else ""

    def _next(self) -> str:
        symbol = self._peek()
        self._position += 1
        return symbol

    def _value(self, depth: int) -> dict[str, Any]:
        """One value, or the alternatives between "|"."""
        strings: list[str] = []
        schema = self._single(depth, strings)
        while self._peek() == "|":
            self._next()
            self._single(depth, strings)
        if strings and not (len(strings) == 1 and strings[0] in _PLACEHOLDERS):
            values = dict.fromkeys(text[1:-1].replace("\\'", "'") for text in strings)
            return {"type": "string", "enum": list(values)}
        return schema

    def _single(self, depth: int, strings: list[str]) -> dict[str, Any]:
        symbol = self._next()
        if symbol == "{":
            return self._object("}", depth + 1)
        if symbol == "[":
            return self._array(depth + 1)
        if symbol[:1] in ("'", '"'):
            strings.append(symbol)
            return {"type": "string"}
        if symbol[:2] in ("b'", 'b"'):
            return {"type": "string", "format": "bytes"}
        if symbol[:1].isdigit() or symbol[:1] == "-":
            return {"type": "number" if "." in symbol else "integer"}
        if self._peek() == "(":
            self._next()
            if self._peek() == "{":
                inner = self._value(depth)
                self._skip(")")
                return inner
            self._skip(")")
        return dict(_WORDS.get(symbol, {}))

    def _object(self, closing: str, depth: int) -> dict[str, Any]:
        properties: dict[str, Any] = {}
        schema: dict[str, Any] = {"type": "object", "properties": properties}
        if depth > _MAX_SYNTAX_DEPTH:
            self._skip(closing)
            return {}
        while (symbol := self._peek()) and symbol != closing:
            start = self._position
            keys = [self._next()]
            while self._peek() == "|":
                self._next()
                keys.append(self._next())
            if self._peek() in (":", "="):
                self._next()
                value = self._value(depth)
                if len(keys) > 1 or keys[0] in _PLACEHOLDERS:
                    schema["additionalProperties"] = value
                    if len(keys) > 1:
                        names = [key.strip("'\"") for key in keys]
                        schema["propertyNames"] = {"type": "string", "enum": names}
                else:
                    properties[keys[0].strip("'\"")] = value
            elif symbol != ",":
                self._position = start
                self._value(depth)
        self._next()
        if "additionalProperties" in schema and not properties:
            del schema["properties"]
        return schema

    def _array(self, depth: int) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "array"}
        if depth > _MAX_SYNTAX_DEPTH:
            self._skip("]")
            return {}
        while (symbol := self._peek()) and symbol != "]":
            if symbol == ",":
                self._next()
                continue
            item = self._value(depth)
            schema.setdefault("items", item)
        self._next()
        return schema

    def _skip(self, closing: str) -> None:
        """Go behind the bracket that closes the one that was opened last."""
        open_brackets = [closing]
        while open_brackets and (symbol := self._next()):
            if symbol in _CLOSING:
                open_brackets.append(_CLOSING[symbol])
            elif symbol == open_brackets[-1]:
                open_brackets.pop()
