"""Parse a document: JSON, or YAML restricted to the values of JSON."""

from __future__ import annotations

import html
import json
import re
from collections import Counter
from contextlib import suppress
from typing import Any, NoReturn
from urllib.parse import urljoin, urlsplit, urlunsplit

import yaml

from toolbank.config.yaml import BoundedLoader, explain_problem
from toolbank.system.errors import InputError
from toolbank.system.terminal import printable
from toolbank.system.text import escape, replace_surrogates

_LINK = re.compile(
    r"""["'=]([^"'=\s<>()]*(?:openapi|swagger|api-docs)[^"'=\s<>()]*\.(?:json|ya?ml))\b""",
    re.IGNORECASE,
)
"""The description that a page of Swagger UI, Redoc and the like shows."""
_MOST = 1_000_000


def is_page(content: bytes) -> bool:
    """Whether content is HTML or XML."""
    return content.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"<")


def explain_page(content: str, where: str) -> str:
    """Write the message for a page at `where` (a file or a URL) in place of a document."""
    if found := _LINK.search(content, 0, _MOST):
        advice = (
            f"It links to {shown(urljoin(where, html.unescape(found[1])))}; give that."
        )
    else:
        advice = (
            "Give the address of the document itself, such as openapi.json, openapi.yaml or "
            "swagger.json. For a Sphinx site, use `type: sphinx`."
        )
    return f"{where}: is a web page (HTML or XML), not JSON or YAML. {advice}"


_CONVERT = "Convert it to OpenAPI 3, and give that file."
_DESCRIBED = "Give the OpenAPI description that it refers to."
_LIST = "List its functions as JSON, each with name, description and parameters."
_SERVER = "Give the server's command or URL."
_PACKAGE = "Give the package's folder, or its import name if it is installed."
_ARGUMENTS = f"{_LIST} It can be the parameters of one."
_NPM = "dependencies,devDependencies,main,module,scripts,exports,bin,engines,license,private"
_KINDS = (
    ("asyncapi", "AsyncAPI", _LIST),
    ("arazzo", "Arazzo", _DESCRIBED),
    ("overlay", "an OpenAPI overlay", _DESCRIBED),
    ("openapi,swagger", "an OpenAPI description", "Read it with `type: openapi`."),
    ("discoveryVersion", "a description of Google's discovery service", _CONVERT),
    ("rootUrl resources", "a description of Google's discovery service", _CONVERT),
    ("swaggerVersion", "Swagger 1", _CONVERT),
    ("mcpServers", "a configuration of MCP servers", "Read it with `type: mcp`."),
    ("__schema,data.__schema", "a schema of GraphQL", _LIST),
    ("info.schema,info._postman_id item", "a Postman collection", _CONVERT),
    ("requests order", "a Postman collection", _CONVERT),
    ("_postman_variable_scope", "a Postman environment", "Give its collection."),
    ("__export_format,type resources,collection", "an export of Insomnia", _CONVERT),
    ("openrpc", "OpenRPC", _LIST),
    ("smithy", "Smithy", _CONVERT),
    ("log.entries", "a log of HTTP requests (HAR)", _CONVERT),
    ("baseUri title", "RAML", _CONVERT),
    ("wsdl:definitions,definitions.@targetNamespace", "WSDL", _LIST),
    ("lockfileVersion", "a lock file of npm", _LIST),
    (f"name version {_NPM}", "a package of npm", _LIST),
    ("name require", "a package of PHP", _LIST),
    ("name packages,remotes,version_detail", "an entry of an MCP registry", _SERVER),
    ("server.name server.version,metadata", "an entry of an MCP registry", _SERVER),
    ("servers server.version,metadata", "entries of an MCP registry", _SERVER),
    ("name skills capabilities", "an agent's card (A2A)", _LIST),
    ("name_for_model api", "a manifest of a plugin", _DESCRIBED),
    ("jsonrpc error", "an error of a server", "Ask the server again for its tools."),
    ("nbformat cells", "a notebook", _LIST),
    ("type,$schema properties,$defs,$id", "a JSON Schema", _ARGUMENTS),
)
"""Keys of another kind of document (all words, one of each list), its name, and what to do."""
_TEXTS = (
    (r"\A#%RAML", "RAML", _CONVERT),
    (r"\AFORMAT: 1A", "API Blueprint", _CONVERT),
    (r"<(\w+:)?definitions\b", "WSDL", _LIST),
    (r"^syntax *= *.proto", "a description of Protocol Buffers", _LIST),
    (r"^\[\[package\]\]", "a lock file", _PACKAGE),
    (r"^\[package\]", "a package of Cargo", _LIST),
    (r"^\[(project|build-system|tool\.poetry)\]", "a Python project", _PACKAGE),
    (r"^(schema|(extend )?type \w+|interface \w+)\b.*\{", "a schema of GraphQL", _LIST),
)


def explain_other(content: Any) -> str:
    """Say what another kind of document, parsed or as bytes, looks like and what to do, or ""."""
    if isinstance(content, bytes):
        text = content[:_MOST].decode("utf-8", "replace")
        for pattern, name, advice in _TEXTS:
            if re.search(pattern, text, re.MULTILINE):
                return f"it looks like {name}. {advice}"
        with suppress(InputError):
            content = parse_document(content[:_MOST], "")[0]
    for keys, name, advice in _KINDS:
        words = (word.split(",") for word in keys.split())
        if all(any(_has(content, key) for key in word) for word in words):
            return f"it looks like {name}. {advice}"
    return ""


def _has(content: Any, path: str) -> bool:
    """Whether objects have keys, which dots separate."""
    for key in path.split("."):
        if not isinstance(content, dict) or key not in content:
            return False
        content = content[key]
    return True


def shown(url: str) -> str:
    """Write a URL for messages, without user name, password and query: they may be secrets."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "an invalid address"
    host = parts.netloc.rpartition("@")[2]
    query = "..." if parts.query else ""
    return printable(urlunsplit((parts.scheme, host, parts.path, query, "")))


_MOST_YAML_MB = 32
_MOST_VALUES = 5_000_000
"""Values of a YAML document with its aliases expanded; nine levels of nine make 387 million."""
_HALF_CHARACTER = re.compile(r"\\u[dD][89a-fA-F]")
_Repeated = dict[int, tuple[dict[str, Any], list[str]]]
"""Mappings with repeated keys, by identity, and these keys."""
_TAG = "tag:yaml.org,2002:"
_NULL, _BOOL, _INT, _FLOAT, _MERGE = (
    _TAG + name for name in ("null", "bool", "int", "float", "merge")
)
_PLAIN = (
    (_NULL, r"~|null|Null|NULL|", "~nN\0"),
    (_BOOL, r"true|True|TRUE|false|False|FALSE", "tTfF"),
    (_INT, r"[-+]?(0|[1-9][0-9]*)|0x[0-9a-fA-F]{1,16}|0o[0-7]{1,21}", "-+0123456789"),
    (
        _FLOAT,
        r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*)([eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+",
        "-+.0123456789",
    ),
    (_MERGE, r"<<", "<"),
)


def parse_document(data: bytes, where: str) -> tuple[Any, list[str]]:
    """Parse a mapping or list of JSON or YAML; `where` names it in messages.

    Also return the JSON pointers of repeated keys, of which the last counts. Keys of YAML are
    texts, and so are values that JSON has no type for, such as dates. An alias is the same object as
    its anchor.

    Raises:
        InputError: it is neither, holds values that JSON can't, or is too large; with the line.
    """
    text = _decode(data, where)
    start = text.lstrip()[:1]
    if not start:
        raise InputError(f"{where}: is empty. Give a document in JSON or YAML.")
    if start == "<":
        raise InputError(explain_page(text, where))
    parse = _parse_json if start in "{[" else _parse_yaml
    try:
        value, repeated = parse(text, where)
    except RecursionError as error:
        raise InputError(f"{where}: nested too deep.") from error
    if not isinstance(value, dict | list):
        raise InputError(
            f"{where}: holds {type(value).__name__}, not a mapping or a list. Is it JSON or YAML?"
        )
    return value, repeated


def _decode(data: bytes, where: str) -> str:
    encoding = json.detect_encoding(data)
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise InputError(
            f"{where}: not text in {encoding} (byte {error.start:,}). Save it as UTF-8."
        ) from error
    if "\0" in text:
        raise InputError(f"{where}: is not text. Give a document in JSON or YAML.")
    return text


def _parse_json(text: str, where: str) -> tuple[Any, list[str]]:
    repeated: _Repeated = {}

    def make(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) != len(pairs):
            counts = Counter(key for key, _ in pairs)
            repeated[id(made)] = made, [key for key in made if counts[key] > 1]
        return made

    try:
        value = json.loads(
            text,
            parse_constant=_refuse_constant,
            parse_float=_read_number,
            object_pairs_hook=make,
        )
        places = _places(value, repeated)
        if _HALF_CHARACTER.search(text):
            whole = replace_surrogates(json.dumps(value, ensure_ascii=False))
            value = json.loads(whole)
        return value, places
    except json.JSONDecodeError as error:
        raise InputError(
            f"{where}, line {error.lineno}, column {error.colno}: not valid JSON ({error.msg})."
        ) from error
    except ValueError as error:
        raise InputError(f"{where}: not valid JSON ({error}).") from error


def _places(value: Any, repeated: _Repeated) -> list[str]:
    """The JSON pointers of repeated keys that are part of the value."""
    places: list[str] = []
    waiting, seen = [(value, "")] if repeated else [], set[int]()
    while waiting:
        part, pointer = waiting.pop()
        if not isinstance(part, dict | list) or id(part) in seen:
            continue
        seen.add(id(part))
        _, keys = repeated.get(id(part), (part, []))
        places += [f"{pointer}/{escape(key)}" for key in keys]
        inner = part.items() if isinstance(part, dict) else enumerate(part)
        waiting += [(one, f"{pointer}/{escape(str(key))}") for key, one in inner]
    return sorted(places)


def _read_number(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"{text[:30]} is too large")
    return number


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON")


class Loader(BoundedLoader):
    """Resolves plain scalars to the types of JSON, as YAML 1.2 does."""

    yaml_implicit_resolvers = {
        letter: [
            (tag, re.compile(rf"^(?:{pattern})$"))
            for tag, pattern, letters in _PLAIN
            if letter in letters
        ]
        for letter in "~nNtTfF-+.0123456789<"
    } | {"": [(_NULL, re.compile(r"^$"))]}


def _parse_yaml(text: str, where: str) -> tuple[Any, list[str]]:
    if len(text) > _MOST_YAML_MB * 1_000_000:
        raise InputError(
            f"{where}: YAML of over {_MOST_YAML_MB} MB takes minutes to read. Save it as JSON."
        )
    try:
        root = yaml.compose(text, Loader=Loader)
        if root is None:
            raise InputError(f"{where}: is empty. Give a document in JSON or YAML.")
        maker = _Maker(where)
        value, _ = maker.make(root)
        return value, _places(value, maker.repeated)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = explain_problem(error, text)
        raise InputError(f"{where}{line}: not valid YAML ({problem}).") from error
    except (yaml.YAMLError, ValueError) as error:
        said = " ".join(str(error).split())
        raise InputError(f"{where}: not valid YAML ({said}).") from error


class _Maker:
    """Constructs each YAML node once, and counts the values with aliases expanded."""

    def __init__(self, where: str) -> None:
        self.repeated: _Repeated = {}
        self._where = where
        self._made: dict[int, tuple[Any, int] | None] = {}

    def make(self, node: yaml.Node) -> tuple[Any, int]:
        """Construct the value of a node, and count its values.

        Raises:
            InputError: an alias contains itself, a key is no text, or there are too many values.
        """
        if isinstance(node, yaml.ScalarNode):
            return _scalar(node), 1
        if id(node) in self._made:
            known = self._made[id(node)]
            if known is None:
                raise self._refused(node, "an alias is inside its own anchor")
            return known
        self._made[id(node)] = None
        is_list = isinstance(node, yaml.SequenceNode)
        made = self._list(node) if is_list else self._mapping(node)
        if made[1] > _MOST_VALUES:
            raise self._refused(
                node,
                f"with its aliases expanded it has over {_MOST_VALUES:,} values",
            )
        self._made[id(node)] = made
        return made

    def _list(self, node: yaml.Node) -> tuple[Any, int]:
        made = [self.make(one) for one in node.value]
        return [value for value, _ in made], 1 + sum(size for _, size in made)

    def _mapping(self, node: yaml.Node) -> tuple[Any, int]:
        values: dict[str, Any] = {}
        repeated: dict[str, None] = {}
        merged: dict[str, Any] = {}
        size = 1
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self._refused(key, "a key that is not a text")
            one, its_size = self.make(value)
            size += its_size
            if key.tag != _MERGE:
                if key.value in values:
                    repeated[key.value] = None
                values[key.value] = one
                continue
            for mapping in one if isinstance(one, list) else [one]:
                if not isinstance(mapping, dict):
                    raise self._refused(key, "<< takes a mapping")
                merged = {**mapping, **merged}
        made = {**merged, **values}
        if repeated:
            self.repeated[id(made)] = made, [*repeated]
        return made, size

    def _refused(self, node: yaml.Node, why: str) -> InputError:
        mark = node.start_mark
        return InputError(
            f"{self._where}, line {mark.line + 1}, column {mark.column + 1}: {why[:300]}."
        )


def _scalar(node: yaml.ScalarNode) -> Any:
    text = node.value
    if node.tag == _NULL:
        return None
    if node.tag == _BOOL and text.lower() in ("true", "false"):
        return text.lower() == "true"
    with suppress(ValueError):
        if node.tag == _INT:
            return int(text, 0)
        # A number too large for a float would be infinity, which JSON lacks.
        if node.tag == _FLOAT and abs(number := float(text)) != float("inf"):
            return number
    return text
