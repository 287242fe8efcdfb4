"""Reads grades from a file, which people wrote, or a model whose replies were kept."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolbank.bank.bank import Bank
from toolbank.bank.records import Tool
from toolbank.generate.writers.recorded import find_replies
from toolbank.llm.chat import ChatReply, ChatRequest, EngineError, Rejection, VerifyTask
from toolbank.llm.engines.kind import EngineKind, refuse_settings
from toolbank.system.errors import InputError
from toolbank.system.files import get_text, json_text, read_lines, sha256_file
from toolbank.verify.replies import read_grades

if TYPE_CHECKING:
    from toolbank.verify.config import VerifyConfig

_KEYS = ("query", "needed", "alternatives", "aside")
_TOOLS = ("tool", "for")


class RecordedGrades:
    """Each line of the file is a reply to the request whose id it has as `query`; `queries` are those.

    `model` is the name of the file, as whose the grades are stored.

    Raises:
        InputError: as of `read_grades_file`.
    """

    name = "recorded"
    offers = None

    def __init__(self, path: Path, tools: Iterable[Tool]) -> None:
        self.model = path.name
        self.identity = f"recorded {sha256_file(path)}"
        self._replies = read_grades_file(path, tools)
        self.queries = frozenset(self._replies)

    async def answer(self, request: ChatRequest) -> ChatReply:
        """Give the grades of the request.

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


def read_grades_file(
    path: Path, tools: Iterable[Tool], queries: Collection[str] | None = None
) -> dict[str, str]:
    """Read a file of grades: by the id of its request, each line's grades as a reply has them.

    Tools have their own names in the replies. With `queries`, a line of another request is refused.

    Raises:
        InputError: the file can't be read, is empty, or lines are wrong: which and why.
    """
    bank = Bank(tuple(tools))
    names = {name: bank.tools[place].name for name, place in bank.index.items()}
    lines: dict[str, int] = {}

    def parse(row: dict[str, Any], number: int) -> tuple[str, str]:
        query = get_text(row, "query")
        if unknown := [key for key in row if key not in _KEYS]:
            raise ValueError(
                f"unknown key {unknown[0]!r}; there are: {', '.join(_KEYS)}"
            )
        if queries is not None and query not in queries:
            raise ValueError(f"no request of this bank has the id {query!r}")
        if query in lines:
            raise ValueError(f"{query!r} is graded in line {lines[query]} already")
        lines[query] = number
        return query, _check_grades(row, query, names)

    try:
        replies = dict(read_lines(path, parse))
    except InputError as error:
        raise InputError(
            f"{error}\nNothing was changed. A line is "
            '{"query": ID, "needed": [{"tool": NAME, "why": TEXT}], "alternatives": [{"tool": NAME, '
            '"for": NAME, "why": TEXT}], "aside": TEXT}. Only "query", and "needed" or "aside", '
            "have to be there."
        ) from error
    if not replies:
        raise InputError(f"{path}: no recorded grades in this file.")
    return replies


def _check_grades(row: Mapping[str, Any], query: str, names: Mapping[str, str]) -> str:
    """The grades of a line, with the tools' own names.

    Raises:
        ValueError: they are wrong.
    """
    grades = {key: row[key] for key in row if key != "query"}
    for key in ("needed", "alternatives"):
        rows = grades.get(key)
        for one in rows if isinstance(rows, list) else ():
            name = one.get("tool") if isinstance(one, dict) else None
            if isinstance(name, str) and name not in names:
                raise ValueError(f'"{key}": no tool of this bank is named {name!r}')
        if isinstance(rows, list):
            grades[key] = [_name_own(one, names) for one in rows]
    text = json_text(grades)
    found = read_grades(ChatReply(text, ""), query, names.keys())
    if isinstance(found, Rejection):
        raise ValueError(f"{found.reason}: {found.detail}")
    return text


def _name_own(one: Any, names: Mapping[str, str]) -> Any:
    if not isinstance(one, dict):
        return one
    return {
        key: names.get(value, value)
        if key in _TOOLS and isinstance(value, str)
        else value
        for key, value in one.items()
    }


def _check(config: VerifyConfig) -> None:
    refuse_settings(config)
    find_replies(config.section, config.replies)


KIND = EngineKind["VerifyConfig"](
    name="recorded",
    make=lambda config, context: RecordedGrades(
        find_replies(config.section, config.replies), context.tools
    ),
    check=_check,
    sends=lambda _: (),
    files=lambda config: (config.replies,) if config.replies else (),
    describe=lambda _: "recorded",
    asks_model=False,
    plays_back=True,
)
