"""What a retriever reads of a tool."""

import re

from toolbank.bank.records import Tool

_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SEPARATOR = re.compile(r"[\W_]+")


def title_and_summary(tool: Tool) -> str:
    """The text whose embedding stands for a tool: its name and its summary."""
    gist = tool.summary or tool.description
    return f"{tool.name}: {gist}" if gist else tool.name


def full_text(tool: Tool) -> str:
    """Name, summary, description, and the parameters with what is said of them.

    What a dense retriever reads of an API in ToolBench (arXiv 2307.16789, section 3.2).
    """
    parts = [title_and_summary(tool)]
    if tool.summary and tool.description:
        parts.append(tool.description)
    properties = tool.parameters.get("properties", {})
    for name, schema in properties.items() if isinstance(properties, dict) else ():
        said = schema.get("description", "") if isinstance(schema, dict) else ""
        parts.append(f"{name}: {said}" if said else name)
    return "\n".join(parts)


def all_words(tool: Tool) -> str:
    """The text that BM25 indexes: name, the words in the name, summary, description."""
    words = _SEPARATOR.sub(" ", _HUMP.sub(" ", tool.name))
    return "\n".join((tool.name, words, tool.summary, tool.description))
