"""A list of functions, as a kind of source."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

from toolbank.bank.records import Tool
from toolbank.sources.functions.source import FunctionsSource
from toolbank.sources.kind import Collected, SourceKind
from toolbank.sources.thing import Thing
from toolbank.system.errors import InputError
from toolbank.system.files import sha256_file

_EXAMPLES = 3
_TOLD = 50
"""Entries of which the reason is told one by one."""
_ENDINGS = (".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".parquet")


def _read_tools(config: FunctionsSource, _: Path) -> Collected:
    from toolbank.functions.lists import read_entry
    from toolbank.sources.functions.rows import read_rows
    from toolbank.sources.schema.mend import mend_parameters
    from toolbank.sources.tool_check import SchemaCheck

    tools: dict[str, Tool] = {}
    left_out: Counter[str] = Counter()
    examples: defaultdict[str, list[str]] = defaultdict(list)
    problems: list[str] = []
    mended: list[str] = []
    check = SchemaCheck()

    def leave_out(reason: str, what: str) -> None:
        left_out[reason] += 1
        if len(examples[reason]) < _EXAMPLES:
            examples[reason].append(what)

    for place, entry in read_rows(config.path):
        try:
            if isinstance(entry, InputError):
                raise entry
            tool = read_entry(entry)
            parameters, trouble = mend_parameters(tool.parameters, check)
        except (ValueError, InputError, RecursionError) as error:
            reason = "not a function that can be read"
            leave_out(reason, place)
            if left_out[reason] <= _TOLD:
                said = " ".join(str(error).split())[:300]
                problems.append(f"{config.path}, {place}: left out, {said}")
            elif left_out[reason] == _TOLD + 1:
                problems.append(f"{config.path}: and more that are left out")
            continue
        tool = tool.model_copy(
            update={"parameters": parameters, "source": config.label}
        )
        known = tools.get(tool.name)
        if known is None:
            tools[tool.name] = tool
            if trouble:
                mended.append(tool.name)
        elif known == tool:
            leave_out("listed before, the same", f"{tool.name} ({place})")
        else:
            leave_out("listed before, with another text", f"{tool.name} ({place})")
    if not tools:
        raise InputError(
            f"{config.path}: lists no function that can be read. "
            + (problems[0] + "." if problems else _EXPECTED)
        )
    notes = [
        f"{config.label}: {number:,} left out: {reason}, such as {', '.join(examples[reason])}"
        for reason, number in sorted(left_out.items())
    ]
    if mended:
        notes.append(
            f"{config.label}: parameters that are no JSON Schema were mended in {len(mended):,}, "
            f"such as {', '.join(mended[:_EXAMPLES])}"
        )
    return Collected(
        tuple(tools[name] for name in sorted(tools)),
        {
            "source": config.label,
            "left_out": dict(sorted(left_out.items())),
            "left_out_examples": {
                reason: examples[reason] for reason in sorted(examples)
            },
        },
        problems=tuple(problems),
        notes=tuple(notes),
    )


_EXPECTED = (
    'A list looks like [{"name": "forecast", "description": "Tell the weather of a day.", '
    '"parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}].'
)


def _content_id(config: FunctionsSource) -> str:
    return f"{config.label}@{sha256_file(config.path)[:16]}"


def _recognise(thing: Thing) -> FunctionsSource | None:
    """Any file of JSON or a table: what it lists is told when it is read."""
    if thing.path is None or not thing.path.is_file():
        return None
    is_one = thing.path.suffix.lower() in _ENDINGS
    return FunctionsSource(path=thing.path) if is_one else None


KIND = SourceKind(
    FunctionsSource,
    _read_tools,
    _content_id,
    recognise=_recognise,
    takes="a list of functions (.json, .jsonl, .csv or .parquet)",
)
