"""The records of a bank: Tool, Query, Ask and their parts."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class Record(BaseModel):
    """A row or a part of one: frozen, without other fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


Place = Literal["path", "query", "header", "cookie", "body", "form"]


class Argument(Record):
    """The place of a property of a tool's parameters in an HTTP request.

    `name` is its name there, "" for a property that is the whole body. `style` and `explode` are
    those of OpenAPI; for a value with its own content type, such as application/json, that is the
    style.
    """

    property: str
    place: Place
    name: str = ""
    style: str = ""
    explode: bool | None = None


class HttpCall(Record):
    """An operation of an HTTP API.

    `path` is a template, such as /pets/{id}. `content_type` is that of the body, "" without one.
    `security` are alternative groups of security schemes, by name; `server` is the URL in the API's
    description.
    """

    type: Literal["http"] = "http"
    method: str
    path: str
    arguments: tuple[Argument, ...] = ()
    content_type: str = ""
    security: tuple[tuple[str, ...], ...] = ()
    server: str = ""


class McpCall(Record):
    """A tool of an MCP server: the name of the server, and the tool's name there."""

    type: Literal["mcp"] = "mcp"
    source: str
    tool: str


class PythonCall(Record):
    """An object of a Python package: its import path, such as numpy.linalg.norm."""

    type: Literal["python"] = "python"
    path: str


Call = Annotated[HttpCall | McpCall | PythonCall, Field(discriminator="type")]


_LONGEST_FUNCTION_NAME = 64
_DIGITS = (8, 16, 32, 56)
"""Digits of the hash that makes a name unique; the longest never collides."""


def function_name(name: str) -> str:
    """Make a function name: dots become `_`; with other characters, or if too long, add a hash."""
    plain = name.replace(".", "_")
    if re.fullmatch(r"[a-zA-Z0-9_-]{0,64}", plain):
        return plain
    return hashed_name(name)


def hashed_name(name: str, digits: int = _DIGITS[0]) -> str:
    """Replace other characters of a name by `_`, and add hex digits of its hash."""
    legal = re.sub(r"[^a-zA-Z0-9_-]", "_", name)
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{legal[: _LONGEST_FUNCTION_NAME - 1 - digits]}_{digest[:digits]}"


def name_functions(names: Collection[str]) -> dict[str, str]:
    """Map names of tools to unique function names.

    Names that would be equal all get a hash, so their order does not matter.
    """
    found = {name: function_name(name) for name in names}
    for digits in _DIGITS:
        counts = Counter(found.values())
        for name in found:
            if counts[found[name]] > 1:
                found[name] = hashed_name(name, digits)
    return found


_NEXT_LABEL = re.compile(r", (?=[a-z][a-z0-9_-]*:\S)")

ToolKind = Literal[
    "function", "method", "class", "property", "operation", "object", "module"
]
Split = Literal["train", "validation", "test"]


class ReturnValue(Record):
    """A value that a tool returns; `structure` is its JSON Schema if it is nested."""

    name: str = ""
    type: str = ""
    description: str = ""
    structure: dict[str, Any] | None = None


class RaisedException(Record):
    """An exception or a warning of a tool, and when it occurs."""

    type: str
    description: str = ""


VersionChange = Literal["added", "changed", "deprecated", "removed"]


class VersionNote(Record):
    """A change in a version of the library; `parameter` is "" for the whole tool."""

    change: VersionChange
    version: str
    description: str = ""
    parameter: str = ""


class SeeAlso(Record):
    """A reference to another tool, with its description of one line."""

    name: str
    description: str = ""


class Tool(Record):
    """An object of an API reference that can be called, indexed or imported.

    `name` is fully qualified and unique in a bank; `aliases` are other names of the same object.
    `twins` are the names of other tools that no request can distinguish from it.
    `parameters` is a JSON Schema of type "object" with properties in the order of the signature and
    its own `$defs`. `output_schema` is a JSON Schema of the result, `annotations` are hints of an
    MCP server, such as readOnlyHint, and `call` is what is needed to call it.
    """

    name: str
    title: str = ""
    kind: ToolKind = "function"
    summary: str = ""
    description: str = ""
    signature: str = ""
    parameters: dict[str, Any] = Field(
        default_factory=lambda: {"type": "object", "properties": {}}
    )
    output_schema: dict[str, Any] | None = None
    returns: tuple[ReturnValue, ...] = ()
    raises: tuple[RaisedException, ...] = ()
    examples: str = ""
    notes: str = ""
    see_also: tuple[SeeAlso, ...] = ()
    deprecated: str = ""
    versions: tuple[VersionNote, ...] = ()
    url: str = ""
    source: str = ""
    aliases: tuple[str, ...] = ()
    twins: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    annotations: dict[str, Any] = Field(default_factory=dict)
    call: Call | None = None

    @property
    def sources(self) -> tuple[str, ...]:
        """The labels of the sources with this tool; its call is that of the first."""
        return tuple(_NEXT_LABEL.split(self.source))

    @property
    def full_description(self) -> str:
        """The summary and the description, as paragraphs."""
        return "\n\n".join(filter(None, (self.summary, self.description)))

    def as_function(self, name: str = "") -> dict[str, Any]:
        """Write the tool in the function-calling format of chat-completions APIs.

        The name is `name`, or that of `function_name`, which may not be unique.
        """
        return {
            "type": "function",
            "function": {
                "name": name or function_name(self.name),
                "description": self.full_description,
                "parameters": self.parameters,
            },
        }


class Provenance(Record):
    """The origin of a query: enough to find its prompts and replies in the journal."""

    attempt: int
    engine: str
    model: str
    prompt_hash: str
    seed: int
    requests: tuple[str, ...] = ()


class Query(Record):
    """A user's request and the tools that serve it, in call order."""

    id: str
    query: str
    draft: str = ""
    tools: tuple[str, ...]
    explanation: str = ""
    domain: str = ""
    split: Split | None = None
    provenance: Provenance | None = None


class Ask(Record):
    """A query for one tool alone; `kind` is its kind in the recipe."""

    tool: str
    kind: str
    ask: str
    provenance: Provenance | None = None


class AttemptRecord(Record):
    """The outcome of an attempt, and the keys of its calls in the journal."""

    attempt: int
    outcome: Literal["accepted", "declined", "rejected", "failed"]
    reason: str = ""
    detail: str = ""
    query_id: str | None = None
    requests: tuple[str, ...] = ()


def find_first_twins(tools: Sequence[Tool]) -> tuple[int, ...]:
    """For each tool, return the position of its first twin, or its own.

    Twins of a twin are twins. Unknown names are skipped.
    """
    index = {tool.name: position for position, tool in enumerate(tools)}
    pairs = (
        (position, index[name])
        for position, tool in enumerate(tools)
        for name in tool.twins
        if name in index
    )
    return join_pairs(len(tools), pairs)


def join_pairs(count: int, pairs: Iterable[tuple[int, int]]) -> tuple[int, ...]:
    """For each number below `count`, return the least number that it is connected to by pairs."""
    least = list(range(count))

    def find(number: int) -> int:
        while least[number] != number:
            least[number] = number = least[least[number]]
        return number

    for one, other in pairs:
        low, high = sorted((find(one), find(other)))
        least[high] = low
    return tuple(map(find, range(count)))


_MEMBERS = ("method", "property")


def group_siblings(tools: Sequence[Tool]) -> list[tuple[Tool, ...]]:
    """Group siblings, in the order of the first tool of each group.

    Siblings are methods or properties of several classes with the same last part of the name and
    the same summary, such as `is_on_offset` of each class of dates.
    """
    groups: dict[tuple[str, ...], list[Tool]] = {}
    for tool in tools:
        key: tuple[str, ...] = (tool.name,)
        if tool.kind in _MEMBERS and "." in tool.name:
            key = (
                tool.name.rpartition(".")[2],
                tool.kind,
                " ".join(tool.summary.split()),
            )
        groups.setdefault(key, []).append(tool)
    return [tuple(group) for group in groups.values()]
