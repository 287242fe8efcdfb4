"""Tools that others list, each name once, and what became of the rest of the list."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from toolbank.bank.bank import LeftOut
from toolbank.bank.records import Tool
from toolbank.sources.schema.mend import mend_parameters
from toolbank.sources.tool_check import SchemaCheck
from toolbank.system.numbers import count
from toolbank.system.terminal import one_line

_EXAMPLES = 3
_LONGEST_NAME = 60


class Listed:
    """The tools of a list by name, `left_out` what became none, `check` that of their schemas.

    A schema that is none is mended where that can be. Of two of one name the first counts.
    """

    def __init__(self) -> None:
        self.tools: dict[str, Tool] = {}
        self.left_out = LeftOut()
        self._mended: dict[str, list[str]] = {}
        self.check = SchemaCheck()

    def add(self, tool: Tool, parameters: Any, output: Any, place: str) -> None:
        """Take a tool with its schemas as the list has them; `place` says where it stands there."""
        sound, trouble = mend_parameters(parameters, self.check)
        troubles = [trouble] if trouble else []
        if output is not None and not self._is_schema(output):
            output = None
            troubles.append("an output schema that is no JSON Schema")
        tool = tool.model_copy(update={"parameters": sound, "output_schema": output})
        known = self.tools.get(tool.name)
        if known is not None:
            which = (
                "the same text" if tool == known else "another text; the first counts"
            )
            self.left_out.add(f"it is listed twice, with {which}", place)
            return
        self.tools[tool.name] = tool
        for trouble in troubles:
            self._mended.setdefault(trouble, []).append(tool.name)

    def describe_mended(self, label: str) -> Iterator[str]:
        """Lines for people on the schemas that were mended, after a label."""
        for trouble, names in self._mended.items():
            shown = (one_line(name, _LONGEST_NAME) for name in names[:_EXAMPLES])
            yield (
                f"{label}: {count(len(names), 'tool')} with {trouble}, such as "
                f"{', '.join(shown)}; mended"
            )

    def _is_schema(self, value: Any) -> bool:
        return isinstance(value, dict) and not self.check.explain_schema(value)
