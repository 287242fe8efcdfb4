"""The rule on names that clients refuse.

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

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator

from toolbank.bank.records import McpCall, Tool
from toolbank.lint.rule import CheckedTools, LintFinding, name_some

_REFUSED = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST = 64
_LISTED = "functions:"
_MANY = 10
"""Tools with the same other characters in their names that become one finding."""


def find_refused_names(catalogue: CheckedTools) -> Iterator[LintFinding]:
    """Find names with characters that clients refuse, or that are too long for them.

    The dots of import paths, such as `numpy.linalg.norm`, do not count: nobody passes them on as
    they are. Many names of a source with the same characters are one finding.
    """
    by_characters: dict[tuple[str, str], list[Tool]] = defaultdict(list)
    for tool in catalogue.tools:
        name = _called_name(tool)
        if characters := "".join(sorted(set(_REFUSED.findall(name)))):
            by_characters[tool.source, characters].append(tool)
        elif reason := _explain_length(tool, name):
            yield reason
    for (_, characters), tools in by_characters.items():
        groups = [tools] if len(tools) >= _MANY else [[tool] for tool in tools]
        for first, *others in groups:
            names = [tool.name for tool in others]
            whose = (
                f"`{first.name}` and {name_some(names)}" if names else f"`{first.name}`"
            )
            yield LintFinding(
                first,
                f"the {'names' if names else 'name'} {whose} "
                f"{'have' if names else 'has'} {_describe(characters)}; OpenAI, Anthropic and Windsurf "
                "accept only letters A to Z, digits, _ and -",
                others=tuple(names),
            )


def _called_name(tool: Tool) -> str:
    """The name by which clients call a tool."""
    if isinstance(tool.call, McpCall):
        return tool.call.tool
    is_path = tool.kind != "function" or not tool.source.startswith(_LISTED)
    return tool.name.replace(".", "_") if is_path else tool.name


def _explain_length(tool: Tool, name: str) -> LintFinding | None:
    server = tool.call.source if isinstance(tool.call, McpCall) else ""
    whole = f"mcp__{server}__{name}"
    is_own = bool(server) or tool.source.startswith(_LISTED)
    if len(name) > _LONGEST:
        limit = f"{len(name)} characters; the references of OpenAI and Anthropic allow {_LONGEST}"
    elif server and len(whole) > _LONGEST:
        limit = (
            f"{len(whole)} characters as `{whole}`, its name in Claude Code, which accepts "
            f"{_LONGEST}"
        )
    else:
        return None
    return LintFinding(
        tool,
        f"the name `{tool.name}` has {limit}",
        severity="error" if is_own and len(name) > _LONGEST else "warning",
    )


def _describe(characters: str) -> str:
    return ", ".join(
        "spaces"
        if character == " "
        else f"`{character}`"
        if character.isascii() and character.isprintable()
        else f"U+{ord(character):04X} ({unicodedata.name(character, 'a control character').lower()})"
        for character in characters
    )
