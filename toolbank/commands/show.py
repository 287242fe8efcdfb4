"""`toolbank show`."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from toolbank.bank.bank import read_missing
from toolbank.bank.files import (
    read_attempt,
    read_attempts,
    read_frame,
    read_query,
    read_tools,
)
from toolbank.bank.frames import load_bank
from toolbank.bank.records import AttemptRecord, Tool
from toolbank.commands.options import RunArgument, echo
from toolbank.commands.transcript import (
    Tally,
    find_exchanges,
    format_attempt,
    list_asks,
    show_ask_outcomes,
    show_missing,
    show_missing_outcomes,
    show_verified,
    tabulate_tallies,
)
from toolbank.config.explain import read_checked
from toolbank.llm.accounts import SearchCalls, add_up_calls
from toolbank.llm.journal import Failure, Journal, JournalEntry
from toolbank.llm.step import describe_ending
from toolbank.report.sections import Verification
from toolbank.requests.judge.judges import JudgeConfig
from toolbank.requests.write.checks import Draft, read_draft
from toolbank.requests.write.config import GenerateConfig
from toolbank.run.folder import RunFolder, open_run
from toolbank.run.recipe import load_recipe
from toolbank.system.errors import InputError
from toolbank.system.files import read_json
from toolbank.system.terminal import advise_to_finish, align, command, one_line

_LONGEST_REASON = 200


def explain_left_out(folder: RunFolder, name: str) -> str:
    """Explain why a name is not a tool; "" if the sources do not say.

    Raises:
        InputError: sources.json is damaged.
    """
    path = folder.bank / "sources.json"
    for source in read_json(path).get("sources", ()) if path.is_file() else ():
        what = f"{one_line(name, _LONGEST_REASON)}: not a tool of this run, but in {source['source']}"
        if name in source.get("undocumented", ()):
            return f"{what}. It has no docstring; write one to make it a tool."
        for reason, names in source.get("left_out_examples", {}).items():
            if name in names:
                return f"{what}. It was skipped: {reason}."
    return ""


_LONGEST_LABEL = 200


def show_searches(folder: RunFolder) -> str:
    """Tabulate the calls of retrievers that use a model; "" if none does.

    Raises:
        InputError: searches.json is damaged.
    """
    if not folder.searches.is_file():
        return ""
    rows = [("retriever", "replies", "tokens in", "tokens out", "cost", "failed tries")]
    found = read_checked(folder.searches, dict[str, SearchCalls])
    for label, one in found.items():
        calls = add_up_calls(one.calls.values())
        cost = "unknown" if calls.dollars is None else f"${calls.dollars:,.4f}"
        failed = ", ".join(f"{why} {n:,}" for why, n in calls.failed_tries.items())
        note = f"; tokens and cost {calls.note}" if calls.note else ""
        rows.append(
            (
                one_line(label, _LONGEST_LABEL),
                f"{calls.replies:,}",
                f"{calls.prompt_tokens:,}",
                f"{calls.completion_tokens:,}",
                cost,
                f"{failed or 'none'}{note}",
            )
        )
    return "\n".join(align(rows, right=range(1, 5)))


def _show_agreement(folder: RunFolder) -> str:
    """Describe how graders agree, and the hole check; "" without several graders.

    Raises:
        InputError: verify.json is damaged.
    """
    if not folder.verified.is_file():
        return ""
    found = read_checked(folder.verified, Verification)
    return "\n".join(one_line(line, _LONGEST_LINE) for line in found.describe())


def _show_prompts(folder: RunFolder) -> str:
    """Tabulate how the attempts of each version of the prompts ended; "" without a bank.

    Raises:
        InputError: bank.json is damaged.
    """
    path = folder.bank / "bank.json"
    found = read_json(path).get("prompts") if path.is_file() else None
    if not found:
        return ""
    kinds = ("attempts", "accepted", "declined", "repetitions", "copies")
    rows = [("prompts", *kinds[:-1], "copies of an example")]
    for prompt, counts in found.items():
        rows.append((prompt[:_HASH], *(f"{counts[kind]:,}" for kind in kinds)))
    return "\n".join(align(rows, right=range(1, len(rows[0]))))


_HASH = 12
_LONGEST_LINE = 400
_REQUESTS = 10
_LONGEST_NAME, _LONGEST_TEXT, _LONGEST_SIGNATURE = 200, 160, 1_000
_NAMES = 10
_NEAREST = 3
_ALIKE = 0.3


def find_tool(folder: RunFolder, name: str) -> Tool | None:
    """Find the tool of this name, or else the first with this alias.

    Raises:
        InputError: tools.parquet is damaged.
    """
    path = folder.bank / "tools.parquet"
    tools = read_tools(path) if path.is_file() else ()
    named = (tool for tool in tools if tool.name == name)
    return next(named, next((tool for tool in tools if name in tool.aliases), None))


def name_nearest(folder: RunFolder, name: str) -> str:
    """Name the tools with the closest names, as a sentence; "" if none is close.

    Raises:
        InputError: tools.parquet is damaged.
    """
    path = folder.bank / "tools.parquet"
    known: dict[str, str] = {}
    for tool in read_tools(path) if path.is_file() else ():
        # People often omit the first parts of a name.
        words = tool.name.split(".")
        for start in range(len(words)):
            known.setdefault(".".join(words[start:]).lower(), tool.name)
    near = get_close_matches(name.lower(), known, n=len(known) or 1, cutoff=_ALIKE)
    names = list(dict.fromkeys(known[alike] for alike in near))[:_NEAREST]
    said = ", ".join(one_line(one, _LONGEST_NAME) for one in names)
    return f"The nearest tools are {said}. " if said else ""


def show_tool(folder: RunFolder, tool: Tool) -> str:
    """Describe a tool: its parameters, some of the queries that use it, and its asks.

    Raises:
        InputError: queries.parquet, or a file of the asks, is damaged.
        ToolbankError: the journal cannot be read.
    """
    source = f" of {tool.source}" if tool.source else ""
    lines = [f"{one_line(tool.name, _LONGEST_NAME)}, a {tool.kind}{source}"]
    if tool.aliases:
        lines.append(f"also {_list_names(tool.aliases)}")
    if tool.twins:
        lines.append(f"no request can tell it from {_list_names(tool.twins)}")
    signature = one_line(tool.signature, _LONGEST_SIGNATURE)
    lines += [text for text in (signature, tool.summary, tool.description) if text]
    lines += ["parameters:", *(list(_list_parameters(tool.parameters)) or ["  none"])]
    return "\n".join([*lines, *_list_requests(folder, tool), *list_asks(folder, tool)])


def _list_names(names: Sequence[str]) -> str:
    said = ", ".join(one_line(name, _LONGEST_NAME) for name in names[:_NAMES])
    return said + (f" and {len(names) - _NAMES:,} more" if len(names) > _NAMES else "")


def _list_parameters(schema: dict[str, Any]) -> Iterator[str]:
    required = schema.get("required", ())
    for name, found in schema.get("properties", {}).items():
        about = found if isinstance(found, dict) else {}
        kind = about.get("type", "any")
        kinds = " or ".join(map(str, kind)) if isinstance(kind, list) else str(kind)
        need = "" if name in required else ", optional"
        text = one_line(str(about.get("description", "")), _LONGEST_TEXT)
        yield f"  {one_line(name, _LONGEST_NAME)} ({kinds}{need})  {text}".rstrip()


def _list_requests(folder: RunFolder, tool: Tool) -> Iterator[str]:
    import polars as pl

    path = folder.bank / "queries.parquet"
    if not path.is_file():
        yield "requests: none are written yet"
        return
    is_named = pl.element().is_in([tool.name, *tool.aliases])
    uses = pl.col("tools").list.eval(is_named).list.any()
    found = read_frame(path).filter(uses).select("id", "split", "query")
    yield f"requests that use it: {found.height:,}"
    for name, split, text in found.head(_REQUESTS).iter_rows():
        yield f"  {name} ({split or 'no split'})  {one_line(text, _LONGEST_TEXT)}"
    if found.height > _REQUESTS:
        yield f"  and {found.height - _REQUESTS:,} more"


_WITHHELD = "not used"
_UNKNOWN = "not in the bank"
_LONGEST = 160


def show_query(folder: RunFolder, name: str) -> str:
    """A query of the dataset: its split, its text, and its tools.

    Raises:
        InputError: there is none of this id.
    """
    query = read_query(folder.bank / "queries.parquet", name)
    if query is None:
        raise InputError(
            f"{name}: no query and no tool of this run, whose queries come from a dataset. "
            f"{name_nearest(folder, name)}Ids of queries: {command('show', folder.path)}"
        )
    summaries = {
        tool.name: tool.summary for tool in read_tools(folder.bank / "tools.parquet")
    }
    lines = [f"{query.id}, of the dataset ({query.split or _WITHHELD})", query.query]
    lines += [f"draft: {query.draft}"] if query.draft else []
    lines += ["tools:"]
    lines += [
        f"  {one_line(tool, _LONGEST)}  {one_line(summaries.get(tool, _UNKNOWN), _LONGEST)}"
        for tool in query.tools
    ]
    lines += [f"explanation: {query.explanation}"] if query.explanation else []
    return "\n\n".join(filter(None, ("\n".join(lines), show_verified(folder, query))))


def show_splits(folder: RunFolder) -> str:
    """How many queries each split has, with a few ids of each.

    Raises:
        InputError: the bank is not made yet, or damaged.
    """
    queries = load_bank(folder.path).queries
    rows = [("split", "count", "such as")]
    splits = queries.group_by("split", maintain_order=True).agg("id")
    for split, names in splits.iter_rows():
        examples = [one_line(name, _LONGEST) for name in names[:_EXAMPLES]]
        rows.append((split or _WITHHELD, f"{len(names):,}", ", ".join(examples)))
    one = f"{command('show', folder.path)} {shlex.quote(queries['id'][0])}"
    return "\n".join(
        [
            "The queries come from a dataset; no model was asked for them.",
            *align(rows, right=(1,)),
            f"All of one: {one}",
        ]
    )


_ID = re.compile(r"(?:(?P<domain>.*)-)?(?P<number>\d{1,18})")
_EXAMPLES = 4
_STEPS = GenerateConfig.call_steps


def show_one(path: Path, name: str) -> str:
    """Show an attempt, a query (also one that no tool fits) or a tool.

    Raises:
        InputError: no run there, or nothing of this name in it.
        ToolbankError: the journal cannot be read.
    """
    folder = open_run(path)
    for queries in read_missing(folder.bank):
        if found := next((one for one in queries if one.id == name), None):
            return show_missing(folder, found, found.tools)
    tool = None if _is_id(folder, name) else find_tool(folder, name)
    return show_attempt(path, name) if tool is None else show_tool(folder, tool)


def show_attempt(path: Path, name: str) -> str:
    """Show everything about an attempt, by its number or the id of its query.

    In a run on a dataset, show the query and its tools.

    Raises:
        InputError: no run there, or no such attempt or query in it.
        ToolbankError: the journal cannot be read.
    """
    folder = open_run(path)
    if load_recipe(str(folder.recipe)).recipe.dataset is not None:
        return show_query(folder, name)
    number = _read_number(folder, name)
    path = _attempts(folder)
    attempt = read_attempt(path, number) if path.is_file() else None
    # Skip the replies of other models and settings in the same folder.
    keys = attempt.requests if attempt else None
    entries, failures = find_exchanges(folder, number, _STEPS, keys)
    if attempt is None and not (entries or failures):
        raise InputError(
            f"{name}: this run has no such attempt. {_describe_ids(folder)}"
        )
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
    """Tabulate how attempts and asks ended, by prompt too, and what the calls of retrievers took.

    In a run on a dataset, tabulate the queries by split.

    Raises:
        InputError: no run there, or nothing was asked in it yet.
        ToolbankError: the journal cannot be read.
    """
    folder = open_run(path)
    after = (
        _show_prompts(folder),
        show_ask_outcomes(folder),
        show_missing_outcomes(folder),
        show_searches(folder),
        _show_agreement(folder),
    )
    if load_recipe(str(folder.recipe)).recipe.dataset is not None:
        return "\n\n".join(filter(None, (show_splits(folder), *after)))
    found: dict[tuple[str, str], Tally] = defaultdict(lambda: Tally(_EXAMPLES))
    for outcome, reason, name in _outcomes(folder):
        found[outcome, reason].add(name)
    if not found:
        raise InputError(
            f"{path}: no model was called in this run yet. Continue it: {command('run', path)}"
        )
    lines = tabulate_tallies(("outcome", "reason", "count", "such as"), found)
    name = next(iter(found.values())).examples[0]
    if not _attempts(folder).is_file():
        lines.append(f"There is no bank yet. {advise_to_finish(path)}")
    lines.append(f"All of one: {command('show', path)} {name}")
    return "\n\n".join(filter(None, ("\n".join(lines), *after)))


def _outcomes(folder: RunFolder) -> Iterator[tuple[str, str, str]]:
    """Outcome, reason and name of every attempt; without a bank, by the journal."""
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


def _find_judged(
    folder: RunFolder, attempt: AttemptRecord | None
) -> tuple[list[JournalEntry], list[Failure]]:
    """Find the judge's calls about the query of an attempt."""
    entries: list[JournalEntry] = []
    failures: list[Failure] = []
    if attempt is None or attempt.query_id is None or not folder.judge.is_file():
        return entries, failures
    last = read_json(folder.judge)
    for judged in (last, *last.get("others", ())):
        for number, pair in enumerate(judged["pairs"]):
            if pair["query_id"] == attempt.query_id:
                keys = pair.get("requests", ())
                found = find_exchanges(folder, number, JudgeConfig.call_steps, keys)
                entries += found[0]
                failures += found[1]
    return entries, failures


def _format_end(
    folder: RunFolder, attempt: AttemptRecord | None, entries: Iterable[JournalEntry]
) -> Iterator[str]:
    tools: tuple[str, ...] = ()
    if attempt is None and _attempts(folder).is_file():
        yield "not counted in the bank, which ends before this attempt"
    elif attempt is None:
        yield "undecided: there is no bank yet"
    elif attempt.query_id is None:
        yield describe_ending(attempt.outcome, attempt.reason, attempt.detail)
    else:
        query = read_query(folder.bank / "queries.parquet", attempt.query_id)
        text = "its query is not in queries.parquet" if query is None else query.query
        tools = () if query is None else query.tools
        yield f"accepted as {attempt.query_id}: {text}"
    tools = tools or _chosen(entries)
    if tools:
        yield f"tools: {', '.join(tools)}"
    path = folder.bank / "bank.json"
    info = read_json(path) if path.is_file() else {}
    removed = info.get("removed", {}).get("tools", ())
    if gone := [name for name in tools if name in removed]:
        yield (
            f"in neither training nor test: the sources no longer have {', '.join(gone)}"
        )


def _chosen(entries: Iterable[JournalEntry]) -> tuple[str, ...]:
    """The tools that the writer chose, accepted or not."""
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
    domain = load_recipe(str(folder.recipe)).recipe.domain_name
    return found is not None and found["domain"] in (None, domain)


def _read_number(folder: RunFolder, name: str) -> int:
    found = _ID.fullmatch(name)
    if found is None or not _is_id(folder, name):
        raise InputError(
            explain_left_out(folder, name)
            or f"{name}: not a query, an attempt or a tool of this run. "
            f"{name_nearest(folder, name)}{_describe_ids(folder)}"
        )
    return int(found["number"])


def _describe_ids(folder: RunFolder) -> str:
    names = [name for _, _, name in islice(_outcomes(folder), _EXAMPLES)]
    examples = f"Ids look like {', '.join(names)}. " if names else ""
    return f"{examples}All outcomes: {command('show', folder.path)}"


def show(
    run: RunArgument,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="ID|TOOL",
            help="The id of a query, the number of an attempt, or the name of a tool.",
        ),
    ] = None,
) -> None:
    """List the attempts of a run, or show one attempt or one tool in full."""
    echo(show_outcomes(run) if name is None else show_one(run, name))
