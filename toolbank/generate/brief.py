"""What a prompt says of a tool."""

from __future__ import annotations

import re
import textwrap
from typing import Any

from toolbank.bank.records import Tool

_MOST_PARAMETERS = 5
_SUMMARY_CHARACTERS = 240
_PARAMETER_CHARACTERS = 90


def brief(tool: Tool) -> dict[str, str]:
    """A tool's name, summary, what it takes and what it gives, short enough that many fit."""
    properties: dict[str, Any] = tool.parameters.get("properties", {})
    takes = [
        f"{parameter} ({_shorten(schema['description'])})"
        for parameter, schema in properties.items()
        if schema.get("description")
    ]
    gives = [_shorten(value.description) for value in tool.returns[:2]]
    return {
        "name": tool.name,
        "summary": textwrap.shorten(
            tool.summary or tool.description, _SUMMARY_CHARACTERS, placeholder=" ..."
        ),
        "takes": "; ".join(takes[:_MOST_PARAMETERS]),
        "gives": "; ".join(filter(None, gives)),
    }


def _shorten(text: str) -> str:
    """The first sentence, or as much of it as there is room for."""
    sentence = re.split(r"(?<=[a-z0-9)])\.\s", " ".join(text.split()), maxsplit=1)[0]
    return textwrap.shorten(
        sentence.rstrip("."), _PARAMETER_CHARACTERS, placeholder=" ..."
    )
