"""Read a description into tools, one per operation."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import urljoin, urlsplit, urlunsplit

from toolbank.bank.records import HttpCall, Tool
from toolbank.sources.documented import split_summary
from toolbank.sources.documents import Documents
from toolbank.sources.kind import ToolCollection
from toolbank.sources.openapi.operations import (
    Operation,
    OperationParameter,
    ParameterReader,
    list_operations,
)
from toolbank.sources.openapi.references import (
    Findings,
    Node,
    References,
    describe,
)
from toolbank.sources.openapi.schemas import Schemas
from toolbank.sources.openapi.settings import OpenApiSource
from toolbank.sources.openapi.signature import (
    ANY,
    FORMS,
    Body,
    OperationSignature,
    bare,
    choose,
    is_json,
    read_body,
    read_body_parameter,
    read_media,
)
from toolbank.sources.openapi.texts import plain_text
from toolbank.sources.openapi.translation import Schema
from toolbank.system.errors import InputError


def name_operations(operations: Sequence[Operation], findings: Findings) -> list[str]:
    """Name operations by their operationId, or else by method and path.

    Operations that would share a name get method and path as a suffix, in any order.
    """
    _note_repeated(operations, findings)
    stated = (_text(operation.node.get("operationId")) for operation in operations)
    plain = [
        _clean(name) or _route_name(operation)
        for name, operation in zip(stated, operations, strict=True)
    ]
    counts = Counter(plain)
    names = [
        f"{name}_{_route_name(operation)}" if counts[name] > 1 else name
        for name, operation in zip(plain, operations, strict=True)
    ]
    return _numbered(names, operations)


def _route_name(operation: Operation) -> str:
    return _clean(f"{operation.method}_{operation.path}")


def _clean(text: str) -> str:
    """Replace all but letters, digits, `_`, `.` and `-` by `_`."""
    return re.sub(r"_{2,}", "_", re.sub(r"[^\w.-]+", "_", text)).strip("_.-")


def _numbered(names: Sequence[str], operations: Sequence[Operation]) -> list[str]:
    """Number names that are still equal (/a-b? and /a-b), in the order of their routes."""
    taken = set(names)
    order = sorted(range(len(names)), key=lambda i: (names[i], operations[i].route))
    named, numbers = list(names), Counter[str]()
    for index in order:
        name = names[index]
        numbers[name] += 1
        if numbers[name] > 1:
            while f"{name}_{numbers[name]}" in taken:
                numbers[name] += 1
            named[index] = f"{name}_{numbers[name]}"
    return named


def _note_repeated(operations: Sequence[Operation], findings: Findings) -> None:
    ids = [operation.node.get("operationId") for operation in operations]
    counts = Counter(name for name in ids if isinstance(name, str))
    for name, operation in zip(ids, operations, strict=True):
        if isinstance(name, str) and counts[name] > 1:
            what = f"the operationId {name[:80]!r} is given more than once"
            findings.note(what, operation.node.place)


_MOST = 100_000
"""Characters of the schemas that an output refers to: an API whose objects all refer to each other
would have all of them in each tool."""


def read_response(operation: Operation, schemas: Schemas) -> Schema | None:
    """Read the JSON Schema of an operation's result, with its `$defs`; None if unknown."""
    responses = schemas.references.child(operation.node, "responses")
    if not isinstance(responses.value, dict):
        what = "an operation without `responses`"
        schemas.references.findings.note(what, operation.node.place)
        return None
    for listed in _good_responses(responses):
        node = schemas.references.follow_or_report(listed, "a response")
        schema = _response_schema(node, schemas) if node else None
        if schema is not None:
            schema = schemas.target(schema)
            return schemas.complete(dict(schema), [schema], operation.node.place, _MOST)
    return None


def _good_responses(responses: Node) -> list[Node]:
    """The responses of 2xx, or else the default one."""
    nodes = responses.members()
    good = [code for code in nodes if re.fullmatch(r"2(\d\d|XX)", code, re.IGNORECASE)]
    return [nodes[code] for code in good or ["default"] if code in nodes]


def _response_schema(node: Node, schemas: Schemas) -> Schema | None:
    if schemas.references.is_swagger:
        schema = node.child("schema")
        return None if schema.value is None else schemas.read(schema)
    contents = schemas.references.members(node.child("content"))
    name = choose(n for n in contents if is_json(n) or n in ANY)
    if not name:
        return None
    media = schemas.references.follow_or_report(contents[name], "a content type")
    if not media or (media.get("schema") is None and media.get("itemSchema") is None):
        return None
    return read_media(name, media, schemas)


def list_security(
    operation: Operation, references: References
) -> tuple[tuple[str, ...], ...]:
    """List the groups of security schemes of the operation, or else of the description."""
    groups = _inherited(operation, references, "security")
    return tuple(tuple(map(str, group)) for group in groups if isinstance(group, dict))


def _inherited(operation: Operation, references: References, key: str) -> list[Any]:
    """A list of the operation, or else of the description."""
    nodes = (operation.node, references.root)
    lists = (references.child(node, key).value for node in nodes)
    return next((one for one in lists if isinstance(one, list)), [])


def find_server(operation: Operation, references: References) -> str:
    """Find the first server of the operation, its path or the description, or "".

    Variables are replaced, and a relative URL is resolved against that of the description. User
    name, password and query are removed: they may be secrets.
    """
    root = references.root
    holders = (operation.node, *operation.items, root)
    listed = (references.child(node, "servers") for node in holders)
    servers = next((one for one in listed if one.value), root)
    if references.is_swagger:
        address = _swagger_server(operation, root)
    else:
        server = references.follow_or_report(servers.child(0), "a server")
        address = _server(server, references) if server else ""
    return _public_address(address, servers.document.address)


@lru_cache
def _public_address(address: str, place: str) -> str:
    """An absolute URL, if the place of the document is one, without secrets."""
    try:
        if "://" in place and "://" not in address:
            address = urljoin(place, address or "/")
        parts = urlsplit(address)
    except ValueError:
        return re.split("[?#]", re.sub(r"//[^/]*@", "//", address))[0]
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=host, query="", fragment=""))


def _server(server: Node, references: References) -> str:
    """The URL of a server; a variable in the default of another one stays."""
    variables = references.members(server.child("variables"))

    def fill(found: re.Match[str]) -> str:
        filled = variables[found[1]].get("default") if found[1] in variables else None
        return found[0] if filled is None else str(filled)

    return re.sub(r"\{([^{}]*)\}", fill, _text(server.get("url")))


def _swagger_server(operation: Operation, root: Node) -> str:
    host, base = root.get("host"), root.get("basePath")
    path = base if isinstance(base, str) else ""
    if not isinstance(host, str) or not host:
        return path
    schemes = operation.node.get("schemes") or root.get("schemes")
    listed = schemes if isinstance(schemes, list) else []
    scheme = "http" if listed and "https" not in listed else "https"
    return f"{scheme}://{host}{path}"


_MOST_PARAMETERS = 1_000_000
"""Of all tools: 4,000 operations with an object of 4,000 properties would need gigabytes."""


def read_description(config: OpenApiSource) -> ToolCollection:
    """Read the tools of a description.

    Raises:
        InputError: it can't be read, is not OpenAPI, or has no operation that can be read.
        ToolbankError: it can't be read now; trying again may help.
    """
    documents = Documents(
        root=config.root,
        hosts=config.hosts,
        private_addresses=config.private_addresses,
    )
    document = documents.open(config.spec)
    references = References(documents, Node(document.content, document, ""))
    return _OpenApiReader(references, config.label).read()


class _OpenApiReader:
    def __init__(self, references: References, label: str) -> None:
        self._root = references.root
        self._label = label
        self._references = references
        self._findings = references.findings
        self._schemas = Schemas(references)
        self._parameters = ParameterReader(self._schemas)
        if not isinstance(references.child(self._root, "info").value, dict):
            what = "no `info`, which should name the API"
            self._findings.note(what, self._root.place)

    def read(self) -> ToolCollection:
        operations = list_operations(self._references)
        names = name_operations(operations, self._findings)
        tools: list[Tool] = []
        parameters = 0
        for name, operation in zip(names, operations, strict=True):
            try:
                tools.append(self._tool(name, operation))
            except RecursionError:
                what = "a schema that is nested too deep"
                self._findings.problem(what, operation.node.place)
                reason = "operation that can't be read"
                self._findings.left_out.add(reason, operation.route)
                continue
            parameters += len(tools[-1].parameters["properties"])
            if parameters > _MOST_PARAMETERS:
                raise InputError(
                    f"{self._root.document.address}: its operations have over "
                    f"{_MOST_PARAMETERS:,} parameters in all. Give a part of it."
                )
        self._schemas.fill()
        for place in self._references.documents.repeated:
            what = "a repeated key of an object, of which the last counts"
            self._findings.note(what, place)
        findings = self._findings
        problems = describe(self._label, findings.problems)
        if not tools:
            raise InputError(_explain_nothing(self._root, findings, problems))
        return ToolCollection(
            tuple(sorted(tools, key=lambda tool: tool.name)),
            {"source": self._label, **findings.left_out.as_info()},
            problems=problems,
            notes=describe(self._label, findings.notes),
            complete=not self._references.may_pass,
        )

    def _tool(self, name: str, operation: Operation) -> Tool:
        parameters, bodies = self._parameters.read(operation)
        body = self._body(operation, bodies)
        signature = OperationSignature(self._schemas)
        for one in parameters:
            signature.add(one)
        if body is not None:
            signature.add_body(body)
        summary, description = _words(operation)
        is_deprecated = self._findings.flag(operation.node, "deprecated")
        return Tool(
            name=name,
            title=" ".join(plain_text(operation.node.get("summary")).split()),
            kind="operation",
            summary=summary,
            description=description,
            signature=operation.route,
            parameters=signature.schema(operation.node.place),
            output_schema=read_response(operation, self._schemas),
            deprecated="Deprecated." if is_deprecated else "",
            url=_text(
                self._references.child(operation.node, "externalDocs").get("url")
            ),
            source=self._label,
            tags=_tags(operation, self._references),
            call=HttpCall(
                method=operation.method.upper(),
                path=operation.path,
                arguments=signature.arguments,
                content_type=self._content_type(operation, parameters, body),
                security=list_security(operation, self._references),
                server=find_server(operation, self._references),
            ),
        )

    def _body(self, operation: Operation, bodies: list[Node]) -> Body | None:
        if not self._references.is_swagger:
            return read_body(operation, self._schemas)
        if not bodies:
            return None
        consumed = self._consumed(operation)
        return read_body_parameter(bodies[-1], consumed, self._schemas)

    def _content_type(
        self,
        operation: Operation,
        parameters: list[OperationParameter],
        body: Body | None,
    ) -> str:
        if body is not None:
            return body.content_type
        form = [one.schema for one in parameters if one.argument.place == "form"]
        if not form:
            return ""
        has_file = any(schema.get("format") == "binary" for schema in form)
        listed = [name for name in self._consumed(operation) if bare(name) in FORMS]
        return FORMS[1] if has_file else next(iter(listed), FORMS[0])

    def _consumed(self, operation: Operation) -> list[str]:
        listed = _inherited(operation, self._references, "consumes")
        return [name for name in listed if isinstance(name, str)]


def _words(operation: Operation) -> tuple[str, str]:
    """Summary and description; without a summary, the first sentence of the description is it."""
    summary, description = "", ""
    for node in (operation.node, *operation.items):
        summary = summary or plain_text(node.get("summary")).strip()
        description = description or plain_text(node.get("description")).strip()
        if node is operation.node and (summary or description):
            break
    if summary or not description:
        return " ".join(summary.split()), "" if description == summary else description
    first, _, others = description.partition("\n\n")
    summary, rest = split_summary(first)
    return summary, "\n\n".join(part for part in (rest, others.strip()) if part)


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""


def _tags(operation: Operation, references: References) -> tuple[str, ...]:
    tags: dict[str, None] = {}
    for listed in references.child(operation.node, "tags").elements():
        tag = references.follow_or_report(listed, "a tag")
        if tag and isinstance(tag.value, str):
            tags[tag.value] = None
        elif tag:
            references.findings.problem("a tag is not a text", tag.place)
    return tuple(tags)


def _explain_nothing(root: Node, findings: Findings, problems: tuple[str, ...]) -> str:
    counts = findings.left_out.counts.items()
    left_out = ", ".join(f"{number:,}: {reason}" for reason, number in counts)
    skipped = f" (skipped: {left_out})" if left_out else ""
    why = "; ".join(problems[:3])
    return (
        f"{root.document.address}#/paths: the description has no operations that can be read"
        f"{skipped}. Give one that lists paths with methods such as get or "
        f"post{f', or correct it ({why})' if why else ''}."
    )
