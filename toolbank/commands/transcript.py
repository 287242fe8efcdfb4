"""Format the prompts, replies and result of an attempt, an ask or a verification."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolbank.bank.bank import MISSING, QueryLabels, group_labels, read_labels
from toolbank.bank.files import make_frame, read_frame
from toolbank.bank.records import Ask, Query, Tool
from toolbank.llm.chat import ChatRequest, number_from_text
from toolbank.llm.journal import Failure, Journal, JournalEntry
from toolbank.requests.asks import AsksConfig
from toolbank.requests.missing import MissingConfig
from toolbank.requests.verify import VerifyConfig
from toolbank.requests.verify.gradings import read_gradings
from toolbank.requests.write.text_step import describe_text_ending
from toolbank.run.folder import RunFolder
from toolbank.system.files import read_json
from toolbank.system.terminal import align, command, one_line


def format_attempt(
    name: str,
    entries: Iterable[JournalEntry],
    failures: Iterable[Failure],
    ending: Iterable[str],
) -> str:
    """Format an attempt: its exchanges, the failed tries before each, and its ending."""
    parts = [_title(name)]
    tries = list(failures)
    for entry in entries:
        parts += _format_exchange(entry, [one for one in tries if one.key == entry.key])
        tries = [one for one in tries if one.key != entry.key]
    parts += map(_format_try, tries)
    parts += [f">>> {line}" for line in ending]
    return "\n".join(parts)


def format_prompt(name: str, request: ChatRequest, ending: str) -> str:
    """Format the first prompt of an attempt that has no reply."""
    messages = [
        _format_message(request.step, message.role, message.content)
        for message in request.messages
    ]
    return "\n".join([_title(name), *messages, f">>> {ending}"])


def _title(name: str) -> str:
    return f"{'=' * 30} {name} {'=' * 30}"


def _format_message(step: str, role: str, content: str) -> str:
    return f"--- {step}: {role}\n{content.strip()}\n"


def _format_exchange(entry: JournalEntry, failures: Iterable[Failure]) -> Iterator[str]:
    for message in entry.messages:
        yield _format_message(entry.step, message["role"], message["content"])
    yield from map(_format_try, failures)
    reply = entry.reply
    finish = "" if reply.finish == "stop" else f" ({reply.finish})"
    yield f"--- {entry.step}: reply of {reply.model}{finish}\n{reply.text.strip()}\n"


def _format_try(failure: Failure) -> str:
    given_up = "; the call was given up" if failure.final else ""
    return f"--- {failure.step}: a try failed, {failure.reason}{given_up}\n{failure.message}\n"


_LONGEST = 240


@dataclass
class Tally:
    """How many items there are, and the names of the first few."""

    most: int
    count: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, name: str) -> None:
        """Count an item."""
        self.count += 1
        if len(self.examples) < self.most and name not in self.examples:
            self.examples.append(name)


def tabulate_tallies(
    head: tuple[str, str, str, str], tallies: Mapping[tuple[str, str], Tally]
) -> list[str]:
    """Lay out a table of outcomes with reasons, counts and examples."""
    rows = [
        (*kind, f"{tally.count:,}", ", ".join(tally.examples))
        for kind, tally in sorted(tallies.items())
    ]
    return align([head, *rows], right=[2])


def show_missing_outcomes(folder: RunFolder) -> str:
    """Tabulate how many requests that no tool should fit ended how and why; "" if none were written.

    Raises:
        InputError: a file is damaged.
    """
    path = folder.bank / "missing.json"
    if not path.is_file():
        return ""
    ids = list(_frame(folder, MISSING)["id"])
    head = ("requests that no tool fits", "reason", "count", "such as")
    return "\n".join(_tabulate_texts(folder, read_json(path), ids, "group", head))


def show_missing(folder: RunFolder, query: Query, tools: Sequence[str]) -> str:
    """Show everything about a missing-tool query: its prompt and reply, and its grades.

    `tools` are those that a grader found for it.

    Raises:
        InputError: a file is damaged.
        ToolbankError: the journal can't be read.
    """
    made = query.provenance
    entries: list[JournalEntry] = []
    failures: list[Failure] = []
    if made:
        steps = MissingConfig.call_steps
        entries, failures = find_exchanges(folder, made.attempt, steps, made.requests)
    ending = [query.query]
    ending += [f"near: {query.domain}"] if query.domain else []
    ending += [f"a tool for it would: {query.explanation}"] if query.explanation else []
    verified = show_verified(folder, query)
    if tools:
        ending.append(f"a grader found a tool that fits: {', '.join(tools)}")
    elif verified:
        ending.append("no tool fits it, by its grades")
    else:
        ending.append("not graded: only its writer says that no tool fits")
    shown = format_attempt(query.id, entries, failures, ending)
    return "\n\n".join(filter(None, (shown, verified)))


def show_ask_outcomes(folder: RunFolder) -> str:
    """Tabulate how many asks ended how and why; "" if none were written.

    Raises:
        InputError: a file is damaged.
    """
    path = folder.bank / "asks.json"
    if not path.is_file():
        return ""
    names = list(_frame(folder, "asks.parquet")["tool"].unique(maintain_order=True))
    head = ("asks", "reason", "count", "for tools such as")
    return "\n".join(_tabulate_texts(folder, read_json(path), names, "tool", head))


def _tabulate_texts(
    folder: RunFolder,
    info: Mapping[str, Any],
    accepted: Sequence[str],
    key: str,
    head: tuple[str, str, str, str],
) -> list[str]:
    """Tabulate how texts ended; `key` names what those of `not_accepted` were written for."""
    # Siblings share an ask that was written once.
    tally = Tally(_EXAMPLES, info["counts"]["accepted"], list(accepted[:_EXAMPLES]))
    tallies = {("accepted", ""): tally} if tally.count else {}
    for row in info["not_accepted"]:
        kind = row["outcome"], row["reason"]
        tallies.setdefault(kind, Tally(_EXAMPLES)).add(row[key])
    example = next(tally.examples[0] for tally in tallies.values())
    lines = tabulate_tallies(head, tallies)
    return [*lines, f"All for one: {command('show', folder.path)} {example}"]


_EXAMPLES = 3


def list_asks(folder: RunFolder, tool: Tool) -> Iterator[str]:
    """List the asks for a tool, why others were not accepted, and the exchange behind them.

    Raises:
        InputError: a file is damaged.
        ToolbankError: the journal cannot be read.
    """
    asks = _frame(folder, "asks.parquet", tool=tool.name)
    path = folder.bank / "asks.json"
    lost: list[dict[str, Any]] = [
        row
        for row in (read_json(path)["not_accepted"] if path.is_file() else ())
        if row["tool"] == tool.name
    ]
    provenance = asks["provenance"][0] if asks.height else None
    keys = {row["request"] for row in lost}
    attempt = number_from_text(tool.name)
    if provenance is not None:
        attempt = provenance["attempt"]
        keys |= set(provenance["requests"])
    # Until asks.json is written, show the whole attempt.
    steps = AsksConfig.call_steps
    entries, failures = find_exchanges(folder, attempt, steps, keys or None)
    if not (asks.height or lost or entries or failures):
        return
    yield f"asks for it alone: {asks.height}"
    for kind, text in asks.select("kind", "ask").iter_rows():
        yield f"  {kind:<7} {one_line(text, _LONGEST)}"
    for row in lost:
        ending = describe_text_ending(row["outcome"], row["reason"], row["detail"])
        yield f"  {row['kind']:<7} {one_line(ending, _LONGEST)}"
    if entries or failures:
        yield format_attempt(f"asks for {tool.name}", entries, failures, ())


def _frame(folder: RunFolder, name: str, **wanted: Any) -> Any:

    path = folder.bank / name
    return read_frame(path, **wanted) if path.is_file() else make_frame(Ask, ())


def find_exchanges(
    folder: RunFolder,
    attempt: int,
    steps: Collection[str],
    keys: Collection[str] | None = None,
) -> tuple[list[JournalEntry], list[Failure]]:
    """Find the replies and failed tries of an attempt in these steps, or only those of `keys`.

    Raises:
        ToolbankError: the journal cannot be read.
    """
    if not folder.journal.is_file():
        return [], []

    def is_one(call: JournalEntry | Failure) -> bool:
        return call.step in steps and (keys is None or call.key in keys)

    with Journal(folder.journal, read_only=True) as journal:
        return (
            list(filter(is_one, journal.entries(attempt))),
            list(filter(is_one, journal.failures(attempt))),
        )


def show_verified(folder: RunFolder, query: Query) -> str:
    """Show the verified labels of a query and the exchange behind them; "" without either.

    Raises:
        InputError: the labels are damaged.
        ToolbankError: the journal cannot be read.
    """
    number, steps = number_from_text(query.query), VerifyConfig.call_steps
    entries, failures = find_exchanges(folder, number, steps)
    labels = read_labels(folder.bank / "labels.parquet")
    verified = group_labels(one for one in labels if one.query == query.id)
    if not (entries or failures or verified):
        return ""
    ending = [*_list_grades(folder, query), *_describe(verified.get(query.id))]
    return format_attempt(f"labels of {query.id}", entries, failures, ending)


def _list_grades(folder: RunFolder, query: Query) -> Iterator[str]:
    """List the grades of each person and model, if several graded the request."""
    of = [
        one
        for one in read_gradings(folder.grades)
        if (one.query, one.text) == (query.id, query.query)
    ]
    for one in of if len(of) > 1 else ():
        labels = (f"{label.grade} {label.tool}".strip() for label in one.labels)
        yield one_line(f"the {one.kind} {one.source}: {', '.join(labels)}", _LONGEST)


def _describe(verified: QueryLabels | None) -> Iterator[str]:
    if verified is None:
        yield "no verified labels: its first labels count"
    elif verified.aside:
        yield f"set aside: {verified.aside}"
    else:
        for name in verified.needed:
            others = verified.alternatives.get(name, ())
            yield f"needed: {' or '.join((name, *others))}"
