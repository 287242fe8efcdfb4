"""The names that a prompt shows for its tools."""

from collections.abc import Sequence

from toolbank.bank.records import Tool


def shown_names(tools: Sequence[Tool]) -> tuple[str, ...]:
    """One name a tool, all different: the prompt name, or the tool's own where it has none.

    Where two tools of a prompt share a prompt name, the later ones get a number.
    """
    shown: dict[str, None] = {}
    for tool in tools:
        base = name = tool.prompt_name or tool.name
        number = 2
        while name in shown:
            name = f"{base}_{number}"
            number += 1
        shown[name] = None
    return tuple(shown)
