"""A description read into tools, one an operation."""

from __future__ import annotations

from typing import Any

from toolbank.bank.records import HttpCall, Tool
from toolbank.sources.documented import split_summary
from toolbank.sources.documents.documents import Documents
from toolbank.sources.kind import Collected
from toolbank.sources.openapi.bodies import Body, BodyReader
from toolbank.sources.openapi.findings import Findings, describe
from toolbank.sources.openapi.media import FORMS, bare
from toolbank.sources.openapi.names import name_operations
from toolbank.sources.openapi.parameters import Parameter, ParameterReader
from toolbank.sources.openapi.path_items import Operation, list_operations
from toolbank.sources.openapi.references import Node, References
from toolbank.sources.openapi.responses import ResponseReader
from toolbank.sources.openapi.schemas import Schemas
from toolbank.sources.openapi.security import find_credentials, list_security
from toolbank.sources.openapi.servers import find_server
from toolbank.sources.openapi.signature import Signature
from toolbank.sources.openapi.source import OpenApiSource
from toolbank.sources.openapi.version import read_version
from toolbank.system.errors import InputError

_MOST_PARAMETERS = 1_000_000
"""Of all tools: 4,000 operations that take one object of 4,000 properties would need gigabytes."""


def read_description(config: OpenApiSource) -> Collected:
    """The tools of a description, and what became of the operations that are none.

    Raises:
        InputError: it can't be read, is none of OpenAPI, or none of its operations can be read.
        ToolbankError: it can't be had now, which may pass.
    """
    documents = Documents(
        root=config.root,
        hosts=config.hosts,
        private_addresses=config.private_addresses,
    )
    document = documents.open(config.spec)
    root = Node(document.content, document, "")
    return _Reader(root, References(documents), config.label).read()


class _Reader:
    def __init__(self, root: Node, references: References, label: str) -> None:
        self._root = root
        self._label = label
        self._references = references
        self._findings = Findings()
        self._version = read_version(root, self._findings)
        self._schemas = Schemas(
            references, self._findings, siblings=self._version.has_json_schema
        )
        self._parameters = ParameterReader(
            self._schemas,
            references,
            self._findings,
            self._version,
            find_credentials(root, references, self._version),
        )
        self._bodies = BodyReader(self._schemas, references, self._findings)
        self._responses = ResponseReader(
            self._schemas, references, self._findings, self._version
        )
        if not isinstance(root.child("info").value, dict):
            what = "no `info`, which should say what the API is called"
            self._findings.note(what, root.place)

    def read(self) -> Collected:
        operations = list_operations(
            self._root, self._references, self._version, self._findings
        )
        names = name_operations(operations, self._findings)
        tools: list[Tool] = []
        parameters = 0
        for name, operation in zip(names, operations, strict=True):
            try:
                tools.append(self._tool(name, operation))
            except RecursionError:
                self._findings.problem(
                    "a schema that is nested too deep", operation.node.place
                )
                self._findings.left_out.add(
                    "operation that can't be read", operation.route
                )
                continue
            parameters += len(tools[-1].parameters["properties"])
            if parameters > _MOST_PARAMETERS:
                raise InputError(
                    f"{self._root.document.address}: its operations take over "
                    f"{_MOST_PARAMETERS:,} parameters in all. Give a part of it."
                )
        self._schemas.fill()
        for place in self._references.documents.repeated:
            what = "a key that an object gives more than once, of which the last counts"
            self._findings.note(what, place)
        findings = self._findings
        problems = describe(self._label, findings.problems)
        if not tools:
            raise InputError(_explain_nothing(self._root, findings, problems))
        return Collected(
            tuple(sorted(tools, key=lambda tool: tool.name)),
            {
                "source": self._label,
                **findings.left_out.as_info(),
            },
            problems=problems,
            notes=describe(self._label, findings.notes),
            complete=not self._references.may_pass,
        )

    def _tool(self, name: str, operation: Operation) -> Tool:
        parameters, bodies = self._parameters.read(operation)
        body = self._body(operation, bodies)
        signature = Signature(self._schemas)
        signature.add(parameters)
        if body is not None:
            signature.add_body(body)
        summary, description = _words(operation)
        return Tool(
            name=name,
            title=" ".join(_text(operation.node.get("summary")).split()),
            kind="operation",
            summary=summary,
            description=description,
            signature=operation.route,
            parameters=signature.schema(operation.node.place),
            output_schema=self._responses.read(operation),
            deprecated="Deprecated." if _is_deprecated(operation) else "",
            url=_text(operation.node.get("externalDocs", "url")),
            source=self._label,
            tags=_tags(operation),
            call=HttpCall(
                method=operation.method.upper(),
                path=operation.path,
                arguments=signature.arguments,
                content_type=self._content_type(operation, parameters, body),
                security=list_security(operation, self._root),
                server=find_server(operation, self._root, self._version),
            ),
        )

    def _body(self, operation: Operation, bodies: list[Node]) -> Body | None:
        if not self._version.is_swagger:
            return self._bodies.read(operation)
        if not bodies:
            return None
        return self._bodies.read_parameter(bodies[-1], self._consumed(operation))

    def _content_type(
        self, operation: Operation, parameters: list[Parameter], body: Body | None
    ) -> str:
        if body is not None:
            return body.content_type
        form = [one.schema for one in parameters if one.place == "form"]
        if not form:
            return ""
        has_file = any(schema.get("format") == "binary" for schema in form)
        listed = [name for name in self._consumed(operation) if bare(name) in FORMS]
        return FORMS[1] if has_file else next(iter(listed), FORMS[0])

    def _consumed(self, operation: Operation) -> list[str]:
        listed = operation.node.get("consumes")
        if not isinstance(listed, list):
            listed = self._root.get("consumes")
        names = listed if isinstance(listed, list) else []
        return [name for name in names if isinstance(name, str)]


def _words(operation: Operation) -> tuple[str, str]:
    """Summary and description; without a summary, the description's first sentence is it."""
    summary = _text(operation.node.get("summary"))
    description = _text(operation.node.get("description"))
    if not summary and not description:
        for item in operation.items:
            summary = summary or _text(item.get("summary"))
            description = description or _text(item.get("description"))
    if summary or not description:
        return " ".join(summary.split()), "" if description == summary else description
    first, _, others = description.partition("\n\n")
    summary, rest = split_summary(first)
    return summary, "\n\n".join(part for part in (rest, others.strip()) if part)


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""


def _is_deprecated(operation: Operation) -> bool:
    return operation.node.get("deprecated") is True


def _tags(operation: Operation) -> tuple[str, ...]:
    tags = operation.node.get("tags")
    named = (
        [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else []
    )
    return tuple(dict.fromkeys(named))


def _explain_nothing(root: Node, findings: Findings, problems: tuple[str, ...]) -> str:
    address = root.document.address
    left_out = ", ".join(
        f"{number:,}: {reason}" for reason, number in findings.left_out.counts.items()
    )
    if left_out:
        why = "; ".join(problems[:3])
        return (
            f"{address}#/paths: has no operation that can be read (left out are {left_out}). "
            f"Give a description of what can be called{f', or mend it ({why})' if why else ''}."
        )
    return (
        f"{address}#/paths: the description has no operations. Give one that lists paths with "
        "methods such as get or post."
    )
