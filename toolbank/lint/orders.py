"""Rules on texts that give orders to a model, and on invisible characters.

The patterns follow published attacks: tool poisoning (Invariant Labs, 2025), MCPTox
(arXiv 2508.14925), and OWASP's MCP03. They are English, and find only what is said plainly.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from toolbank.bank.records import Tool
from toolbank.lint.rule import CheckedTools, LintFinding, Severity
from toolbank.system.numbers import count
from toolbank.system.terminal import one_line

_ORDERS: list[tuple[str, Severity, re.Pattern[str]]] = [
    (order["what"], order["severity"], re.compile(pattern))
    for order in tomllib.loads(
        Path(__file__).with_name("orders.toml").read_text("utf-8")
    )["order"]
    for pattern in order["patterns"]
]
_ROUND = 60


def find_orders(catalogue: CheckedTools) -> Iterator[LintFinding]:
    """Find texts that tell a model to do more than call the tool."""
    for tool, place, text in _list_texts(catalogue):
        for reason, severity in _search(text):
            yield LintFinding(
                tool,
                severity,
                f"{_name(tool, place)} {reason}",
                "Do not use the tool until you know why the text is there. Describe what the tool "
                "does, not what the model must do",
                parameter=place,
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


def find_hidden(catalogue: CheckedTools) -> Iterator[LintFinding]:
    """Find characters that people do not see and a model reads.

    Zero-width spaces, which editors leave in texts, are a note unless they are in a name.
    """
    for tool, place, text in _list_texts(catalogue):
        if text.isascii():
            continue
        if not (hidden := "".join(_HIDDEN.findall(_FLAG.sub("", text)))):
            continue
        tags = "".join(chr(ord(one) - _TAGS) for one in hidden if ord(one) > _TAGS)
        message = one_line(tags, _ROUND) if tags.isprintable() else ""
        names = sorted({unicodedata.name(s, f"U+{ord(s):04X}") for s in hidden})
        is_note = _HARMLESS.fullmatch(hidden) and text != tool.name
        yield LintFinding(
            tool,
            "note" if is_note else "error",
            f"{_name(tool, place)} has {count(len(hidden), 'invisible character')} "
            f"({', '.join(names[:3]).lower()})"
            + (f', which read "{message}"' if message else ""),
            "Remove the characters. If you did not write them, do not use the tool",
            parameter=place,
        )


def reveal(text: str) -> str:
    """Replace invisible characters by their codes, such as <U+200B>."""
    return _HIDDEN.sub(
        lambda found: "".join(f"<U+{ord(character):04X}>" for character in found[0]),
        text,
    )


@lru_cache(maxsize=1)
def _list_texts(catalogue: CheckedTools) -> list[tuple[Tool, str, str]]:
    """The texts that a model reads, each with its tool, and its parameter or ""."""
    found = []
    for tool in catalogue.tools:
        own = filter(None, (tool.title, tool.full_description, tool.notes))
        found += [(tool, "", tool.name), (tool, "", "\n".join(own))]
        # Paths and parts of schemas; below the empty path are the parameters.
        waiting: list[tuple[str, Any]] = [("", tool.parameters)]
        while waiting:
            path, part = waiting.pop()
            if isinstance(part, str):
                found.append((tool, path, part))
            elif isinstance(part, list):
                waiting += [(path, one) for one in part]
            elif isinstance(part, dict):
                names = part.get("properties")
                if isinstance(names, dict):
                    for name, one in names.items():
                        inner = f"{path}.{name}" if path else name
                        waiting += [(inner, name), (inner, one)]
                    part = {k: v for k, v in part.items() if k != "properties"}
                waiting += [(path, one) for one in part.values()]
    return found


def _name(tool: Tool, place: str) -> str:
    if place:
        return f"the text of the parameter `{place}` of `{tool.name}`"
    return f"the text of `{tool.name}`"


def _around(text: str, found: re.Match[str]) -> str:
    start = max(0, found.start() - _ROUND // 2)
    return text[start : min(len(text), found.end() + _ROUND // 2)]
