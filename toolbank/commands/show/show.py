"""Tracing what a run made: how each attempt ended, and what was asked and answered."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from toolbank.bank.files import read_attempt, read_attempts, read_query
from toolbank.bank.records import AttemptRecord
from toolbank.commands.show.asks import show_ask_outcomes
from toolbank.commands.show.dataset import show_query, show_splits
from toolbank.commands.show.left_out import explain_left_out
from toolbank.commands.show.searches import show_searches
from toolbank.commands.show.tool import find_tool, name_nearest, show_tool
from toolbank.commands.show.transcript import format_attempt, format_ending
from toolbank.commands.show.verified import show_verified
from toolbank.llm.journal import Entry, Failure, Journal
from toolbank.requests.write.checks import Draft, read_draft
from toolbank.requests.write.config import GenerateConfig
from toolbank.run.folder import RunFolder, open_run
from toolbank.run.recipe import load_recipe
from toolbank.system.errors import InputError
from toolbank.system.files import read_json
from toolbank.system.terminal import advise_to_finish, command

_ID = re.compile(r"(?:(?P<domain>.*)-)?(?P<number>\d{1,18})")
_EXAMPLES = 4
_STEPS = GenerateConfig.call_steps


def show_one(path: Path, name: str) -> str:
    """An attempt or a query, as `show_attempt`, or the tool of this name where none has it.

    Raises:
        InputError: no run there, or nothing of this name in it.
        ToolbankError: the journal can't be read.
    """
    folder = open_run(path)
    tool = None if _is_id(folder, name) else find_tool(folder, name)
    return show_attempt(path, name) if tool is None else show_tool(folder, tool)


def show_attempt(path: Path, name: str) -> str:
    """Everything about one attempt, by its number or the id of its query, and its judgements.

    Of a run on a dataset, the query and its tools.

    Raises:
        InputError: no run there, or no such attempt or query in it.
        ToolbankError: the journal can't be read.
    """
    folder = open_run(path)
    if load_recipe(str(folder.recipe)).recipe.dataset is not None:
        return show_query(folder, name)
    number = _read_number(folder, name)
    attempt = _find_attempt(folder, number)
    entries, failures = _find_exchanges(folder, number)
    if attempt is None and not (entries or failures):
        raise InputError(
            f"{name}: this run made no such attempt. {_describe_ids(folder)}"
        )
    if attempt is not None:
        # What other models and settings answered in the same folder is not what this came from.
        entries = [entry for entry in entries if entry.key in attempt.requests]
        failures = [failure for failure in failures if failure.key in attempt.requests]
    ending = _format_end(folder, attempt, entries)
    judged, gone = _find_judged(folder, attempt)
    shown = format_attempt(
        f"attempt {number}", [*entries, *judged], [*failures, *gone], ending
    )
    name = attempt.query_id if attempt and attempt.query_id else ""
    query = read_query(folder.bank / "queries.parquet", name) if name else None
    verified = show_verified(folder, query) if query else ""
    return "\n\n".join(filter(None, (shown, verified)))


def show_outcomes(path: Path) -> str:
    """How many attempts ended how and why, with a few ids of each, and how many asks.

    Of a run on a dataset, how many queries each split has, with a few ids. What the calls of
    retrievers took stands at the end.

    Raises:
        InputError: no run there, or nothing was asked in it yet.
        ToolbankError: the journal can't be read.
    """
    folder = open_run(path)
    after = (show_ask_outcomes(folder), show_searches(folder))
    if load_recipe(str(folder.recipe)).recipe.dataset is not None:
        return "\n\n".join(filter(None, (show_splits(folder), *after)))
    found: dict[tuple[str, str], _Ids] = defaultdict(_Ids)
    for outcome, reason, name in _outcomes(folder):
        found[outcome, reason].add(name)
    if not found:
        raise InputError(
            f"{path}: nothing was asked in this run yet. Go on with it: {command('run', path)}"
        )
    lines = [f"{'outcome':<10} {'reason':<24} {'count':>9}  such as"]
    lines += [
        f"{outcome:<10} {reason:<24} {ids.count:>9,}  {', '.join(ids.examples)}"
        for (outcome, reason), ids in sorted(found.items())
    ]
    name = next(iter(found.values())).examples[0]
    if not _attempts(folder).is_file():
        lines.append(f"The bank is not made yet. {advise_to_finish(path)}")
    lines.append(f"All of one: {command('show', path)} {name}")
    return "\n\n".join(filter(None, ("\n".join(lines), *after)))


@dataclass
class _Ids:
    count: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, name: str) -> None:
        self.count += 1
        if len(self.examples) < _EXAMPLES and name not in self.examples:
            self.examples.append(name)


def _outcomes(folder: RunFolder) -> Iterator[tuple[str, str, str]]:
    """Outcome, reason and name of every attempt; without a bank, of what is in the journal."""
    if _attempts(folder).is_file():
        for attempt in read_attempts(_attempts(folder)):
            name = attempt.query_id or str(attempt.attempt)
            yield attempt.outcome, attempt.reason, name
    elif folder.journal.is_file():
        with Journal(folder.journal, read_only=True) as journal:
            for number in journal.attempts(_STEPS):
                yield "undecided", "", str(number)
            for failure in journal.failures():
                if failure.step in _STEPS:
                    yield "failed try", failure.reason, str(failure.attempt)


def _attempts(folder: RunFolder) -> Path:
    return folder.bank / "attempts.parquet"


def _find_attempt(folder: RunFolder, number: int) -> AttemptRecord | None:
    path = _attempts(folder)
    return read_attempt(path, number) if path.is_file() else None


def _find_exchanges(
    folder: RunFolder, number: int
) -> tuple[list[Entry], list[Failure]]:
    if not folder.journal.is_file():
        return [], []
    with Journal(folder.journal, read_only=True) as journal:
        return (
            [one for one in journal.entries(number) if one.step in _STEPS],
            [one for one in journal.failures(number) if one.step in _STEPS],
        )


def _find_judged(
    folder: RunFolder, attempt: AttemptRecord | None
) -> tuple[list[Entry], list[Failure]]:
    """The judge's calls about the query of an attempt, where there are any."""
    entries: list[Entry] = []
    failures: list[Failure] = []
    if attempt is None or attempt.query_id is None or not folder.judge.is_file():
        return entries, failures
    with Journal(folder.journal, read_only=True) as journal:
        last = read_json(folder.judge)
        for judged in (last, *last.get("others", ())):
            for number, pair in enumerate(judged["pairs"]):
                if pair["query_id"] == attempt.query_id:
                    keys = pair.get("requests", ())
                    entries += [e for e in journal.entries(number) if e.key in keys]
                    failures += [f for f in journal.failures(number) if f.key in keys]
    return entries, failures


def _format_end(
    folder: RunFolder, attempt: AttemptRecord | None, entries: Iterable[Entry]
) -> Iterator[str]:
    tools: tuple[str, ...] = ()
    if attempt is None:
        yield _format_undecided(folder)
    elif attempt.query_id is None:
        yield format_ending(attempt.outcome, attempt.reason, attempt.detail)
    else:
        query = read_query(folder.bank / "queries.parquet", attempt.query_id)
        text = "its query is not in queries.parquet" if query is None else query.query
        tools = () if query is None else query.tools
        yield f"accepted as {attempt.query_id}: {text}"
    tools = tools or _chosen(entries)
    if tools:
        yield f"tools: {', '.join(tools)}"
    if gone := [name for name in tools if name in _removed(folder)]:
        yield (
            f"left out of training and test: the sources no longer have {', '.join(gone)}"
        )


def _removed(folder: RunFolder) -> list[str]:
    """The tools that requests need and that are gone."""
    path = folder.bank / "bank.json"
    info = read_json(path) if path.is_file() else {}
    names: list[str] = info.get("removed", {}).get("tools", [])
    return names


def _format_undecided(folder: RunFolder) -> str:
    if _attempts(folder).is_file():
        return "not counted in the bank, which ends before this attempt"
    if (folder.bank / "bank.json").is_file():
        return (
            "undecided: the bank is of an earlier version of toolbank, which did not keep what "
            f"became of attempts. Make it again: {command('run', folder.path)}"
        )
    return "undecided: no bank was made of it yet"


def _chosen(entries: Iterable[Entry]) -> tuple[str, ...]:
    """The tools that the writer named, whether the checks took them or not."""
    for entry in entries:
        draft = read_draft(entry.reply.text) if entry.step == "write" else None
        if isinstance(draft, Draft):
            return tuple(draft.tools)
    return ()


def _is_id(folder: RunFolder, name: str) -> bool:
    if load_recipe(str(folder.recipe)).recipe.dataset is not None:
        queries = folder.bank / "queries.parquet"
        return queries.is_file() and read_query(queries, name) is not None
    found = _ID.fullmatch(name)
    return found is not None and found["domain"] in (None, _domain(folder))


def _read_number(folder: RunFolder, name: str) -> int:
    found = _ID.fullmatch(name)
    if found is None or not _is_id(folder, name):
        raise InputError(
            explain_left_out(folder, name)
            or f"{name}: no query, no number of an attempt and no tool of this run. "
            f"{name_nearest(folder, name)}{_describe_ids(folder)}"
        )
    return int(found["number"])


def _domain(folder: RunFolder) -> str:
    return load_recipe(str(folder.recipe)).recipe.domain_name


def _describe_ids(folder: RunFolder) -> str:
    names = [name for _, _, name in islice(_outcomes(folder), _EXAMPLES)]
    examples = f"Ids look like {', '.join(names)}. " if names else ""
    return f"{examples}All outcomes: {command('show', folder.path)}"
