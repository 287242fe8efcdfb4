"""Tool, Query, Ask and what they are made of: the rows of a bank."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import Field

from toolbank.bank.call import Call
from toolbank.bank.function_names import function_name
from toolbank.bank.record import Record

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
