"""What is needed to call a tool, and nothing secret: where it is and where its arguments go."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from toolbank.bank.record import Record

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
