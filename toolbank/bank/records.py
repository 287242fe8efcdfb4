"""The rows of a bank: Tool, Query, Ask and their parts."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class Record(BaseModel):
    """A row, or a part of one: frozen, and of these fields only."""

    model_config = ConfigDict(frozen=True, extra="forbid")


Place = Literal["path", "query", "header", "cookie", "body", "form"]


class Argument(Record):
    """Where a property of a tool's parameters goes in an HTTP request.

    `name` is what it is called there; "" for a property that is the whole body. `style` and
    `explode` are OpenAPI's, of what says them; of what is written in a content type of its own,
    such as application/json, that is its style.
    """

    property: str
    place: Place
    name: str = ""
    style: str = ""
    explode: bool | None = None


class HttpCall(Record):
    """An operation of an HTTP API.

    `path` is a template, such as /pets/{id}. `content_type` is that of the body, "" without one.
    `security` are the names of security schemes of which one serves, each a group of those that go
    together; `server` is the address that the API's description proposes.
    """

    type: Literal["http"] = "http"
    method: str
    path: str
    arguments: tuple[Argument, ...] = ()
    content_type: str = ""
    security: tuple[tuple[str, ...], ...] = ()
    server: str = ""


class McpCall(Record):
    """A tool of an MCP server: the name of the source, and what the server calls the tool."""

    type: Literal["mcp"] = "mcp"
    source: str
    tool: str


class PythonCall(Record):
    """Something of a Python package: its import path, such as numpy.linalg.norm."""

    type: Literal["python"] = "python"
    path: str


Call = Annotated[HttpCall | McpCall | PythonCall, Field(discriminator="type")]


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


_NEXT_LABEL = re.compile(r", (?=[a-z][a-z0-9_-]*:\S)")

ToolKind = Literal[
    "function", "method", "class", "property", "operation", "object", "module"
]
Split = Literal["train", "validation", "test"]


class Returned(Record):
    """One value that a tool gives back; `structure` is its JSON Schema where it is nested."""

    name: str = ""
    type: str = ""
    description: str = ""
    structure: dict[str, Any] | None = None


class Raised(Record):
    """An exception that a tool raises, or a warning that it gives, and when."""

    type: str
    description: str = ""


VersionChange = Literal["added", "changed", "deprecated", "removed"]


class VersionNote(Record):
    """What a version of the library changed; `parameter` is "" for the whole tool."""

    change: VersionChange
    version: str
    description: str = ""
    parameter: str = ""


class SeeAlso(Record):
    """A reference from one tool to another, with the one line that the page says of it."""

    name: str
    description: str = ""


class Tool(Record):
    """One callable (or indexable, or importable) thing of an API reference.

    `name` is fully qualified and unique in a bank; `aliases` are other names of the same object.
    `twins` are the names of other tools that no request can tell from it.
    `parameters` is a JSON Schema of type "object" whose properties stand in signature order;
    what several of them share stands in its own `$defs`. `output_schema` is a JSON Schema of what
    the tool gives, `annotations` what its server hints of it (MCP's, such as readOnlyHint), `call`
    what is needed to call it.
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
    returns: tuple[Returned, ...] = ()
    raises: tuple[Raised, ...] = ()
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
        """The labels of the sources that say the same of it; its call is the first one's."""
        return tuple(_NEXT_LABEL.split(self.source))

    @property
    def full_description(self) -> str:
        """The summary and what follows it, as paragraphs."""
        return "\n\n".join(filter(None, (self.summary, self.description)))

    def as_function(self, name: str = "") -> dict[str, Any]:
        """The tool in the function-calling format of chat-completions APIs.

        Its name there is `name`, or else as of `function_name`, which another tool's may be, too.
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
    """Where a query came from: enough to find its prompts and replies in the journal."""

    attempt: int
    engine: str
    model: str
    prompt_hash: str
    seed: int
    requests: tuple[str, ...] = ()


class Query(Record):
    """A request in a person's words and the tools that serve it, in call order."""

    id: str
    query: str
    draft: str = ""
    tools: tuple[str, ...]
    explanation: str = ""
    domain: str = ""
    split: Split | None = None
    provenance: Provenance | None = None


class Ask(Record):
    """A request for one tool alone; `kind` is what kind of asking it is, as the recipe has it."""

    tool: str
    kind: str
    ask: str
    provenance: Provenance | None = None


class AttemptRecord(Record):
    """How an attempt ended, and the keys of its calls in the journal."""

    attempt: int
    outcome: Literal["accepted", "declined", "rejected", "failed"]
    reason: str = ""
    detail: str = ""
    query_id: str | None = None
    requests: tuple[str, ...] = ()
