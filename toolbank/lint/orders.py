"""Rules on texts that give orders to a model, and on invisible characters.

The patterns follow published attacks: tool poisoning (Invariant Labs, 2025), MCPTox
(arXiv 2508.14925), and OWASP's MCP03. They are English, and find only what is said plainly.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from toolbank.bank.records import Tool
from toolbank.lint.rule import SEVERITIES, CheckedTools, LintFinding, Severity
from toolbank.system.numbers import count
from toolbank.system.terminal import one_line


def _read_orders() -> Iterator[tuple[str, Severity, re.Pattern[str]]]:
    """Read what texts do, with the severity and a pattern of each, from orders.txt."""
    names: dict[str, str] = {}
    what, severity = "", SEVERITIES[0]
    for line in Path(__file__).with_name("orders.txt").read_text("utf-8").splitlines():
        if line.startswith("  "):
            pattern = re.sub(r"\{([A-Z]+)\}", lambda name: names[name[1]], line.strip())
            yield what, severity, re.compile(pattern)
        elif " = " in line:
            name, _, names[name] = line.partition(" = ")
        elif line and not line.startswith("#"):
            kind, _, what = line.partition(": ")
            severity = next(one for one in SEVERITIES if one == kind)


_ORDERS = tuple(_read_orders())
_ROUND = 60


def find_orders(catalogue: CheckedTools) -> Iterator[LintFinding]:
    """Find texts that tell a model to do more than call the tool."""
    for tool in catalogue.tools:
        for place, text in list_texts(tool):
            for reason, severity in _search(text):
                yield LintFinding(
                    tool,
                    f"{_name(tool, place)} {reason}",
                    parameter=place,
                    severity=severity,
                )


@lru_cache(maxsize=100_000)
def _search(text: str) -> tuple[tuple[str, Severity], ...]:
    """The orders in a text, each with a quotation."""
    # Many times faster than patterns that ignore case.
    lower = text.lower()
    return tuple(
        (f'{what}: "{one_line(_around(text, found), 3 * _ROUND)}"', severity)
        for what, severity, pattern in _ORDERS
        if (found := pattern.search(lower))
    )


# Zero-width characters, those that change the direction of writing, selectors and tags.
_HIDDEN = re.compile(
    "[\u00ad\u180e\u200b\u2060-\u2064\u202a-\u202e\u2066-\u206f\ufeff\U000e0000-\U000e0fff]+"
)
_FLAG = re.compile("\U0001f3f4[\U000e0020-\U000e007f]+")
_HARMLESS = re.compile("[\u00ad\u200b\u2060\ufeff]*")
_TAGS = 0xE0000


def find_hidden_characters(catalogue: CheckedTools) -> Iterator[LintFinding]:
    """Find characters that people do not see and a model reads.

    Zero-width spaces, which editors leave in texts, are a note unless they are in a name.
    """
    for tool in catalogue.tools:
        for place, text in (("", tool.name), *list_texts(tool)):
            hidden = (
                "" if text.isascii() else "".join(_HIDDEN.findall(_FLAG.sub("", text)))
            )
            if not hidden:
                continue
            tags = [
                chr(ord(character) - _TAGS)
                for character in hidden
                if ord(character) > _TAGS
            ]
            message = "".join(tags) if "".join(tags).isprintable() else ""
            names = sorted({unicodedata.name(s, f"U+{ord(s):04X}") for s in hidden})
            is_note = bool(_HARMLESS.fullmatch(hidden)) and text != tool.name
            yield LintFinding(
                tool,
                f"{_name(tool, place)} has {count(len(hidden), 'invisible character')} "
                f"({', '.join(names[:3]).lower()})"
                + (f', which read "{one_line(message, _ROUND)}"' if message else ""),
                parameter=place,
                severity="note" if is_note else None,
            )


def reveal(text: str) -> str:
    """Replace invisible characters by their codes, such as <U+200B>."""
    return _HIDDEN.sub(
        lambda found: "".join(f"<U+{ord(character):04X}>" for character in found[0]),
        text,
    )


def list_texts(tool: Tool) -> Iterator[tuple[str, str]]:
    """Iterate over the texts that a model reads, with the parameter, or "" for the tool's own."""
    yield "", "\n".join(filter(None, (tool.title, tool.full_description, tool.notes)))
    yield from _schema_texts(tool.parameters.get("properties", {}), "")


def _schema_texts(properties: Any, path: str) -> Iterator[tuple[str, str]]:
    waiting: list[tuple[str, Any]] = [(path, properties)]
    while waiting:
        path, part = waiting.pop()
        if isinstance(part, str):
            yield path, part
        elif isinstance(part, list):
            waiting += [(path, one) for one in part]
        elif isinstance(part, dict):
            names = part.get("properties") if path else part
            if isinstance(names, dict):
                for name, one in names.items():
                    inner = f"{path}.{name}" if path else name
                    waiting += [(inner, name), (inner, one)]
            if path:
                waiting += [(path, v) for k, v in part.items() if k != "properties"]


def _name(tool: Tool, place: str) -> str:
    if place:
        return f"the text of the parameter `{place}` of `{tool.name}`"
    return f"the text of `{tool.name}`"


def _around(text: str, found: re.Match[str]) -> str:
    start = max(0, found.start() - _ROUND // 2)
    return text[start : min(len(text), found.end() + _ROUND // 2)]
