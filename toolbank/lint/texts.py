"""Rules on descriptions, parameters and names.

| client | names that it takes | source |
|---|---|---|
| OpenAI | `[a-zA-Z0-9_-]{1,64}` | API reference, `function.name` |
| Anthropic | `[a-zA-Z0-9_-]{1,64}`; its API takes 128, but references to tools 64 | "Define tools" |
| Gemini | letters, digits, `_`, `.`, `:` and `-`, up to 64 (since 2026: 128) | `FunctionDeclaration` |
| MCP | letters, digits, `_`, `-` and `.`, up to 128, as a recommendation | specification 2025-11-25 |
| Claude Code | `mcp__SERVER__TOOL` of up to 64 characters | anthropics/claude-code#2536 |
| Cursor | less than 60 characters of server and tool, which Claude Code's limit implies | ComposioHQ/composio#2788 |
| Windsurf | `[a-zA-Z0-9_-]{1,64}` | patchorbit/domscribe#18 |
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from toolbank.bank.records import HttpCall, McpCall, Tool
from toolbank.lint.rule import (
    READING,
    CheckedTools,
    LintFinding,
    Severity,
    and_others,
    content_words,
    group_by,
    is_replaced,
    name_some,
    own_name,
    prefix,
    scope,
    stems,
)
from toolbank.system.terminal import one_line

_PLACEHOLDER = re.compile(
    r"(?i)\W*(to ?do|tbd|fixme|n/?a|none|null|undefined|unknown|string|lorem ipsum\b.*|"
    r"(no |missing |add |your |tool |enter )*description( here| available| provided| given)*)?\W*"
)
_QUOTED = 100
_FEW = 3
"""Words of a description that say nothing of a tool without parameters."""
_REMEDY = "Say what the tool does, with what, and when to use it"


def find_undescribed(catalogue: CheckedTools) -> Iterator[LintFinding]:
    """Find tools without a description, with a placeholder such as TODO, or with the name alone.

    A description that repeats the name is enough if a parameter is described, and without
    parameters if the tool only reads or the name is long. VS Code's model
    service, for one, refuses tools without a description (microsoft/vscode#243909).
    """
    for tool in catalogue.tools:
        text = tool.full_description.strip()
        if _PLACEHOLDER.fullmatch(text):
            shown = f' but "{one_line(text, _QUOTED)}"' if text else ""
            reason = f"`{tool.name}` has no description{shown}"
            yield LintFinding(tool, "error", reason, _REMEDY)
    named = filter(_says_the_name, catalogue.tools)
    for group in group_by(named, lambda tool: (scope(tool), bool(_properties(tool)))):
        text = one_line(group[0].summary or group[0].description, _QUOTED)
        which = "described" if _properties(group[0]) else "listed"
        yield LintFinding(
            group[0],
            "warning",
            f'the description of `{group[0].name}`, "{text}", says no more than the name, and no '
            f"parameters are {which}{and_others(group)}",
            _REMEDY,
            others=tuple(tool.name for tool in group[1:]),
        )


def _says_the_name(tool: Tool) -> bool:
    words = content_words(f"{tool.full_description} {tool.notes}")
    names, properties = {*stems(own_name(tool))}, _properties(tool)
    if not words or not words <= names:
        return False
    is_told = len(words) > _FEW or bool(READING & names)
    return (
        not any(map(_says_something, properties.values()))
        if properties
        else not is_told
    )


def _properties(tool: Tool) -> dict[str, Any]:
    return dict(tool.parameters.get("properties", {}))


_VAGUE = re.compile(
    r"(?i)(arg|args?_?\d+|param|parameter|params?_?\d+|input|inputs?_?\d+|data|payload|obj|object|"
    r"opts?|options|params|parameters|config|cfg|settings|info|stuff|thing|foo|bar|baz|tmp|temp|"
    r"misc|dummy|field_?\d+|value_?\d+|val|var|var_?\d+|[a-z]_?\d*)"
)
_NAMED_A = r"[`'\"(*]a[`'\",)*]|\ba (?:and|or) \w\b"
_SAYING = re.compile(
    r'"(description|enum|const|examples?|format|pattern|properties|\$ref)": (?!""|\[\]|\{\}|null)'
)


def find_vague(catalogue: CheckedTools) -> Iterator[LintFinding]:
    """Find parameters whose names say nothing, such as `x1` or `data`, and that nothing describes.

    A parameter that the tool's description names says something, as does one with choices, a
    format, an example, or with properties. What the only one of a tool means is plain unless it is
    an object.
    """
    for tool in catalogue.tools:
        vague = [*_list_vague(tool)]
        types = _properties(tool)
        objects = [name for name in vague if '"object"' in json.dumps(types[name])]
        if (names := vague if len(vague) > 1 else objects) and not is_replaced(tool):
            yield LintFinding(
                tool,
                "warning",
                f"nothing says what the {'parameters' if names[1:] else 'object'} {name_some(names)} "
                f"of `{tool.name}` {'mean' if names[1:] else 'contains'}",
                "Describe each parameter, or name it after what it contains",
                parameter=names[0],
            )


def _list_vague(tool: Tool) -> Iterator[str]:
    text = f"{tool.full_description}\n{tool.notes}"
    for name, schema in _properties(tool).items():
        if _VAGUE.fullmatch(name) and not _says_something(schema):
            # Of the article "a" only what is marked as a name counts.
            plain = rf"(?<![^\W_]){re.escape(name)}(?![^\W_])"
            if not re.search(_NAMED_A if name == "a" else plain, text, re.IGNORECASE):
                yield name


def _says_something(schema: Any) -> bool:
    """Whether a schema, or a part of it, says more than a type."""
    return bool(_SAYING.search(json.dumps(schema)))


_REFUSED = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST = 64


def find_refused_names(catalogue: CheckedTools) -> Iterator[LintFinding]:
    """Find names with characters that clients refuse, or that are too long for them.

    The dots of import paths, such as `numpy.linalg.norm`, do not count: nobody passes them on as
    they are. Names that only a prefix makes too long are one finding for each source, and so are
    those of a server with the same other characters.
    """
    faults = {tool.name: _find_fault(tool) for tool in catalogue.tools}
    for group in group_by(catalogue.tools, lambda tool: faults[tool.name].cause):
        fault = faults[group[0].name]
        yield LintFinding(
            group[0],
            fault.severity,
            f"the name `{group[0].name}` has {' and '.join(fault.reasons)}{and_others(group)}",
            f"Name it with at most {_LONGEST} letters, digits, _ and -, its prefix included",
            others=tuple(tool.name for tool in group[1:]),
        )


@dataclass(frozen=True)
class _NameFault:
    """Why clients refuse a name; names with the same cause are one finding."""

    cause: tuple[str, ...] | None
    reasons: Sequence[str] = ()
    severity: Severity = "error"


def _find_fault(tool: Tool) -> _NameFault:
    name = whole = tool.name
    if isinstance(tool.call, McpCall):
        name, whole = tool.call.tool, f"mcp__{tool.call.source}__{tool.call.tool}"
    elif tool.kind != "function" or not tool.source.startswith("functions:"):
        name = own_name(tool).replace(".", "_")
    characters = " and ".join(map(_describe, sorted({*_REFUSED.findall(name)})))
    reasons = [f"{characters} (OpenAI, Anthropic and Windsurf refuse them)"]
    reasons = reasons if characters else []
    if len(name) > _LONGEST:
        how = " without its prefix" if prefix(tool) else ""
        how = " as its method and path" if _is_path(tool) else how
        reasons.append(f"{len(name)} characters{how}; clients take {_LONGEST}")
        cause = scope(tool), characters, "" if _is_path(tool) else name
        return _NameFault(cause, reasons)
    if len(whole) <= _LONGEST:
        return _NameFault((scope(tool), characters) if characters else None, reasons)
    is_served = isinstance(tool.call, McpCall)
    how = "with its prefix; clients take 64, and refuse dots"
    how = f"as `{whole}`; Claude Code takes {_LONGEST}" if is_served else how
    reasons.append(f"{len(whole)} characters {how}")
    severity: Severity = "warning" if is_served else "note"
    return _NameFault(
        (scope(tool), characters, "prefix"),
        reasons,
        "error" if characters else severity,
    )


def _is_path(tool: Tool) -> bool:
    """Whether the name of an operation consists of its method and path."""
    if not isinstance(tool.call, HttpCall):
        return False
    texts = (f"{tool.call.method}{tool.call.path}", tool.name)
    path, name = (re.sub(r"[\W_]", "", text).lower() for text in texts)
    return path == name


def _describe(character: str) -> str:
    if character == " ":
        return "spaces"
    return f"`{character}`" if "!" <= character <= "~" else f"U+{ord(character):04X}"
