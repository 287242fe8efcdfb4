"""Rules on descriptions, of tools and of parameters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from toolbank.bank.function_writer import find_target
from toolbank.bank.records import McpCall
from toolbank.lint.rule import CheckedTools, LintFinding, content_words
from toolbank.system.terminal import one_line

_PLACEHOLDER = re.compile(
    r"(?i)\W*(to ?do|tbd|fixme|n/?a|none|null|undefined|unknown|string|lorem ipsum\b.*|"
    r"(no |missing |add |your |tool |enter )*description( here| available| provided| given)*)?\W*"
)
_QUOTED = 100


def find_undescribed(catalogue: CheckedTools) -> Iterator[LintFinding]:
    """Find tools without a description, or with a placeholder such as TODO.

    VS Code's model service, for one, refuses them (microsoft/vscode#243909).
    """
    for tool in catalogue.tools:
        text = tool.full_description.strip()
        if _PLACEHOLDER.fullmatch(text):
            shown = f' but "{one_line(text, _QUOTED)}"' if text else ""
            yield LintFinding(tool, f"`{tool.name}` has no description{shown}")


def find_repeated_names(catalogue: CheckedTools) -> Iterator[LintFinding]:
    """Find tools whose description consists of words of their name."""
    for tool in catalogue.tools:
        name = tool.call.tool if isinstance(tool.call, McpCall) else tool.name
        words = content_words(tool.full_description)
        if words and words <= content_words(name):
            yield LintFinding(
                tool,
                f"the description of `{tool.name}`, "
                f'"{one_line(tool.summary or tool.description, _QUOTED)}", '
                "only repeats its name",
            )


_VAGUE = re.compile(
    r"(?i)(arg|args?_?\d+|param|parameter|params?_?\d+|input|inputs?_?\d+|data|payload|obj|object|"
    r"opts?|options|params|parameters|config|cfg|settings|info|stuff|thing|foo|bar|baz|tmp|temp|"
    r"misc|dummy|field_?\d+|value_?\d+|val|var|var_?\d+|[a-z]_?\d*)"
)
_NAMED_A = r"[`'\"(*]a[`'\",)*]|\ba (?:and|or) \w\b"
_SAYING = ("description", "enum", "const", "examples", "example", "format", "pattern")


def find_vague_parameters(catalogue: CheckedTools) -> Iterator[LintFinding]:
    """Find parameters without a description whose name says nothing, such as `data` or `x`.

    A parameter that the tool's description names says something, as does one with choices, a
    format, an example, or with properties of its own.
    """
    for tool in catalogue.tools:
        properties = tool.parameters.get("properties", {})
        for name, schema in properties.items():
            if not _VAGUE.fullmatch(name) or _says_something(schema, tool.parameters):
                continue
            text = f"{tool.full_description}\n{tool.notes}"
            # Of the article "a" only what is marked as a name counts.
            named = (
                _NAMED_A if name == "a" else rf"(?<![^\W_]){re.escape(name)}(?![^\W_])"
            )
            if re.search(named, text, re.IGNORECASE):
                continue
            yield LintFinding(
                tool,
                f"the parameter `{name}` of `{tool.name}` has no description, and its name does "
                "not say what it is",
                parameter=name,
            )


def _says_something(schema: Any, root: dict[str, Any]) -> bool:
    """Whether a schema, or a part of it, says more than a type."""
    waiting, seen = [schema], set()
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += part
        if not isinstance(part, dict):
            continue
        if any(part.get(key) for key in _SAYING) or part.get("properties"):
            return True
        pointer = part.get("$ref")
        if isinstance(pointer, str) and pointer not in seen:
            seen.add(pointer)
            waiting.append(find_target(root, pointer))
        waiting += [value for key, value in part.items() if key != "default"]
    return False
