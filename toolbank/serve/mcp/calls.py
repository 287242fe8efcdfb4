"""Calls that agents have passed on, so many at once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mcp.server.mcpserver.exceptions import ToolError

from toolbank.bank.records import Tool
from toolbank.calls.errors import CallError
from toolbank.serve.settings import MOST_CALLS

if TYPE_CHECKING:
    from toolbank.calls.caller import Caller

_MOST_THERE = 4 * MOST_CALLS


class Calls:
    """Has a caller pass calls on; more than may run at once wait for their turn, so many at most."""

    def __init__(self, caller: Caller) -> None:
        self.caller, self._turns = caller, asyncio.Semaphore(MOST_CALLS)
        self._there = 0

    async def run(self, tool: Tool, arguments: Mapping[str, Any]) -> str:
        """What a tool answers.

        Raises:
            ToolError: too many wait, it may not be called, its arguments don't fit, or the call
                failed.
        """
        if self._there >= _MOST_THERE:
            raise ToolError("Too many calls at once. Ask again.")
        self._there += 1
        try:
            async with self._turns:
                return await self.caller.call(tool, arguments)
        except CallError as error:
            raise ToolError(str(error)) from error
        finally:
            self._there -= 1
