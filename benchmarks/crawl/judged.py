"""What the type text of a parameter says, judged by a small list of words."""

import re

from signature import literal

_WORDS = {
    "boolean": r"bools?|booleans?|bool[_-]like",
    "integer": r"(non-negative |positive )?(ints?|integers?)|long",
    "number": r"(python )?floats?|numbers?|double|reals?|numeric|scalars?( values?)?",
    "string": r"strs?( \w+)*|strings?|datetime|bytes",
    "null": r"none",
    "array": r"(\S+\s)?(array[_ -]likes?|(np\.|numpy\.)?ndarrays?|lists?|tuples?|"
    r"sequences?|arrays?|list-likes?|sets?|iterables?( object)?)|(list|tuple)\[.*\]",
    "object": r"dicts?|dictionary|mapping|dict-like",
}
_QUOTES = str.maketrans("\u2018\u2019\u201c\u201d", "''\"\"")


def judge_types(text: str) -> tuple[set[str], bool]:
    """JSON types that the text names, and whether it names anything else too."""
    types: set[str] = set()
    other = False
    for part in _alternatives(text):
        value = literal(part)
        words = re.sub(r"^(an?|optional|single)\s+", "", part.casefold())
        head = re.split(r"\s+(?:of|to|in|with|containing|thereof)(?:\s+|$)", words)[0]
        found = [
            kind for kind, pattern in _WORDS.items() if re.fullmatch(pattern, head)
        ]
        if value is not ...:
            found = [json_type(value)]
        types.update(found)
        other = other or not found
    return types, other


def allowed_types(text: str, default: object) -> set[str]:
    """What a schema may name besides: the default's type; a scalar may be text or a truth value."""
    types = set() if default is ... else {json_type(default)}
    return types | ({"boolean", "string"} if "scalar" in text else set())


def _straight(text: str) -> str:
    """Straight quotes, no remarks in parentheses, nothing of the default."""
    text = re.sub(r"(?i)^optional,? ", "", text.translate(_QUOTES))
    text = re.sub(r"^\(\w+(, ?\w+)+\)", "tuple", text)
    text = re.sub(r"(\w+) \((\d)\)", r"\2 or '\1'", text)  # {index (0), columns (1)}
    text = re.sub(r"\([^)]*\)", " ", text)
    text = re.sub(r"^\S+ is the default", "", text)
    text = re.sub(r"\"(\{.*\})\"", r"\1", text)
    return re.sub(r"(?i)[,;]?\s*(defaults?|optional)\b.*$", "", text)


def _alternatives(text: str) -> list[str]:
    """The parts between "or", commas, bars and braces; quoted text stays whole."""
    text = _straight(text)
    parts = re.split(r"""('[^']*'|"[^"]*")|[{},;|/]|\bor\b""", text)
    stripped = [part.strip(" .`") for part in parts if part]
    # quotes that hold a comma or a bar are a page's slips
    return [part for part in stripped if part and not re.search(r"^'.*[,|]", part)]


def judge_enum(text: str) -> tuple[object, ...]:
    """The literals, None left out, that stand in braces or are alternatives of their own."""
    if "…" in text or "..." in text:
        return ()
    values = [literal(part) for part in _alternatives(text)]
    listed = [value for value in values if value is not ... and value is not None]
    return () if set(map(repr, listed)) == {"True", "False"} else tuple(listed)


def judge_defaults(text: str) -> object:
    """The literal behind the word "default"; ... where there is none, or only in some cases."""
    said = re.search(
        r"(?i)\bdefaults?\b\s*(?:is|to|value|[:=])?\s*[:=]?\s*"
        r"('[^']*'|\"[^\"]*\"|[\w.+-]+)(?!.*\b(if|in|for|else)\b)",
        text.translate(_QUOTES),
    )
    return literal(said.group(1).rstrip(".")) if said else ...


def json_type(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "object" if isinstance(value, dict) else "array"
