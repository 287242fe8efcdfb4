"""Request and response syntax blocks: paths and the values that an enumeration allows."""

import re

_TOKEN = re.compile(
    r"'(?P<string>[^']*)'|(?P<word>[\w.]+)|(?P<mark>\.\.\.|[{}\[\]()=:,|])|\s+|(?P<other>.)"
)
_PLACEHOLDERS = {"string", "..."}


class _Tokens:
    def __init__(self, text: str) -> None:
        self.items = [
            (match.lastgroup, match[match.lastgroup])
            for match in _TOKEN.finditer(text)
            if match.lastgroup
        ]
        self.at = 0

    def peek(self) -> str:
        return self._look(self.at)

    def _look(self, place: int) -> str:
        if place >= len(self.items):
            return ""
        kind, value = self.items[place]
        return value if kind == "mark" else f"{kind} {value}"

    def next(self) -> tuple[str, str]:
        item = self.items[self.at]
        self.at += 1
        return item

    def take(self, mark: str) -> bool:
        if self.peek() == mark:
            self.at += 1
            return True
        return False


def read_syntax(text: str) -> dict[str, tuple[object, ...]]:
    """Path of every field in the block, in order, and its enumeration (or ())."""
    found: dict[str, tuple[object, ...]] = {}
    start = re.match(r"\s*response\s*=\s*[\w.]+\(", text)
    tokens = _Tokens(text[start.end() :] if start else text)
    if start:
        while tokens.peek() not in ("", ")"):
            _, name = tokens.next()
            assert tokens.take("="), name
            found[name] = ()
            found[name] = _value(tokens, name, found)
            tokens.take(",")
    else:
        _value(tokens, "", found)
    return found


def _value(
    tokens: _Tokens, path: str, found: dict[str, tuple[object, ...]]
) -> tuple[object, ...]:
    if tokens.take("{"):
        while not tokens.take("}"):
            keys = _alternatives(tokens)
            if tokens.take(":"):
                is_map = keys[0] == "string" or len(keys) > 1
                inner = f"{path}{{}}" if is_map else f"{path}.{keys[0]}".lstrip(".")
                found[inner] = ()
                found[inner] = _value(tokens, inner, found)
            tokens.take(",")
        return ()
    if tokens.take("["):
        while not tokens.take("]"):
            inner = f"{path}[]"
            found[inner] = ()
            found[inner] = _value(tokens, inner, found)
            tokens.take(",")
        return ()
    values = _alternatives(tokens)
    texts = [value for value in values if value is not None]
    if len(texts) < len(values) or (len(texts) == 1 and texts[0] in _PLACEHOLDERS):
        return ()
    return tuple(texts)


def _alternatives(tokens: _Tokens) -> list[str | None]:
    """The strings between bars; None for a literal that is no string."""
    values: list[str | None] = []
    while True:
        kind, value = tokens.next()
        values.append(value if kind == "string" else None)
        if tokens.take("("):
            while not tokens.take(")"):
                tokens.next()
        if kind == "word" and tokens.peek().startswith("string"):  # b'bytes'
            tokens.next()
        if not tokens.take("|"):
            return values
