"""Plays grades that lie in a file, through the same checks and journal as a model's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolbank.chat.chat import ChatReply, ChatRequest, EngineError, VerifyTask
from toolbank.generate.writers.recorded import find_replies
from toolbank.llm.engines.kind import EngineKind, refuse_settings
from toolbank.system.errors import InputError
from toolbank.system.files import json_text, sha256_file
from toolbank.system.jsonl import get_text, read_lines

if TYPE_CHECKING:
    from toolbank.verify.config import VerifyConfig


class RecordedGrades:
    """Each line of the file is a reply to the request whose id it has as `query`; `queries` are those.

    Raises:
        InputError: the file can't be read, is empty, or a line has no `query`.
    """

    name = "recorded"
    offers = None

    def __init__(self, path: Path) -> None:
        self.model = path.name
        self.identity = f"recorded {sha256_file(path)}"
        self._replies = dict(read_lines(path, _parse))
        self.queries = frozenset(self._replies)
        if not self._replies:
            raise InputError(f"{path}: no recorded grades in this file.")

    async def answer(self, request: ChatRequest) -> ChatReply:
        """Play the grades of the request.

        Raises:
            EngineError: it is no request for grades.
        """
        task = request.task
        if not isinstance(task, VerifyTask):
            raise EngineError(
                "recorded grades answer nothing but requests for grades.",
                reason="no-task",
            )
        return ChatReply(self._replies[task.query], self.model)

    async def close(self) -> None:
        """Nothing is held open."""


def _parse(row: dict[str, Any], _: int) -> tuple[str, str]:
    return get_text(row, "query"), json_text({k: row[k] for k in row if k != "query"})


def _check(config: VerifyConfig) -> None:
    refuse_settings(config)
    find_replies(config.section, config.replies)


KIND = EngineKind["VerifyConfig"](
    name="recorded",
    make=lambda config, _: RecordedGrades(find_replies(config.section, config.replies)),
    check=_check,
    sends=lambda _: (),
    files=lambda config: (config.replies,) if config.replies else (),
    describe=lambda _: "recorded",
    asks_model=False,
    plays_back=True,
)
