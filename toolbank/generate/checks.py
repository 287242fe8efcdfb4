"""What a draft must be to get into a bank."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from toolbank.bank.bank import Bank
from toolbank.generate.replies import Draft
from toolbank.generate.text_checks import TextChecker, check_signs
from toolbank.llm.chat import Rejection

if TYPE_CHECKING:
    from toolbank.bank.records import Tool
    from toolbank.generate.config import GenerateConfig


class Checker:
    """The checks of one bank's drafts and queries; `texts` has those of a text alone."""

    def __init__(self, tools: Sequence[Tool], config: GenerateConfig) -> None:
        self.texts = TextChecker(tools)
        self._tools = tools
        self._index = Bank(tuple(tools)).index
        self._config = config

    def check_draft(
        self, draft: Draft, offered: Sequence[Tool], at_most: int
    ) -> tuple[Tool, ...] | Rejection:
        """The tools of a draft, in call order, or why the draft is rejected.

        Tools may go by an alias.
        """
        tools: list[Tool] = []
        dealt = {tool.name for tool in offered}
        for name in draft.tools:
            tool = self._tools[self._index[name]] if name in self._index else None
            if tool is None or tool.name not in dealt:
                return Rejection("tool-not-offered", name[:100])
            tools.append(tool)
        names = [tool.name for tool in tools]
        if len(set(names)) < len(names):
            twice = [name for name, n in Counter(names).items() if n > 1]
            return Rejection("repeated-tool", ", ".join(twice))
        if self._config.tools_per_query and len(tools) != at_most:
            said = f"{len(tools)}, asked for {at_most}"
            return Rejection("other-number-of-tools", said)
        if len(tools) < self._config.fewest_tools:
            said = f"{len(tools)}, at least {self._config.fewest_tools}"
            return Rejection("too-few-tools", said)
        if len(tools) > at_most:
            return Rejection("too-many-tools", f"{len(tools)}, at most {at_most}")
        return (
            self.check_text(draft.draft)
            or check_signs(draft.explanation)
            or tuple(tools)
        )

    def check_text(self, text: str) -> Rejection | None:
        """Why a draft or a query is rejected, or None."""
        return self.texts.check(text, self._config.min_words, self._config.max_words)
