"""The result of a gate as text, as JSON and as JUnit XML."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from toolbank.evaluation.gate import (
    AgainstCheck,
    ChangedQuery,
    Check,
    GateChanges,
    GateResult,
)
from toolbank.system.numbers import count
from toolbank.system.terminal import one_line

_SHOWN = 10
_LONGEST_QUERY, _LONGEST_TOOL = 100, 60


def format_gate(result: GateResult) -> str:
    """Format the checks, and the first lost queries with the ranks of their tools."""
    lines = [
        f"  {'passed' if check.passed else 'FAILED'}  {check.describe()}"
        for check in result.checks
    ]
    for changes in result.changes:
        lines += ["", *_format_changes(result.against, changes)]
    return "\n".join(["Gate:", *lines])


def _format_changes(against: str, changes: GateChanges) -> Iterator[str]:
    yield (
        f"{one_line(changes.set, _LONGEST_TOOL)}: {count(changes.n, 'request')} in both "
        f"evaluations, {changes.only_new:,} only in this one, {changes.only_old:,} only in "
        f"{against}. {count(len(changes.lost), 'request')} lost a tool from the top {changes.k}, "
        f"{len(changes.won):,} won one."
    )
    yield from (f"  {line}" for one in changes.lost[:_SHOWN] for line in _describe(one))
    if len(changes.lost) > _SHOWN:
        more = len(changes.lost) - _SHOWN
        yield f"  and {more:,} more; `--json FILE` writes all."


def _describe(changed: ChangedQuery) -> Iterator[str]:
    yield f"lost: {one_line(changed.query, _LONGEST_QUERY)}"
    for one in changed.tools:
        before, after = (rank or "not found" for rank in (one.before, one.after))
        yield f"  {one_line(one.tool, _LONGEST_TOOL)}: rank {before}, now {after}"


def gate_record(result: GateResult) -> dict[str, Any]:
    """Return the result as a JSON object, with all lost and won queries."""
    return {
        "run": result.run,
        "against": result.against or None,
        "retriever": result.retriever,
        "passed": not result.failed,
        "checks": [_check_record(check) for check in result.checks],
        "changes": [asdict(one) for one in result.changes],
    }


def _check_record(check: Check) -> dict[str, Any]:
    numbers = asdict(check)
    figure = numbers.pop("figure")
    about = {"kind": check.kind, "condition": check.condition, "passed": check.passed}
    if isinstance(check, AgainstCheck):
        figure = {key: figure[key] for key in ("retriever", "set", "metric", "k")}
    return {**about, **figure, **numbers}


# What XML 1.0 has no place for, not even escaped (section 2.2).
_NO_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def format_junit(result: GateResult) -> str:
    """Format one JUnit test case per check; its class is SET.RETRIEVER.

    The elements and attributes are those of the Jenkins xUnit plugin's junit-10.xsd. A failure has
    the figures in its message, which Jenkins shows, and in its text, which GitLab shows.
    """
    root = Element("testsuites", name="toolbank evaluate")
    suite = SubElement(root, "testsuite", name=_clean(result.run), skipped="0")
    for element in (root, suite):
        element.set("tests", str(len(result.checks)))
        element.set("failures", str(len(result.failed)))
        element.set("errors", "0")
    lost = {
        one.set: "\n".join(_format_changes(result.against, one))
        for one in result.changes
    }
    for check in result.checks:
        owner = _clean(f"{check.figure.set}.{check.figure.retriever}")
        name = _clean(check.condition)
        case = SubElement(suite, "testcase", classname=owner, name=name, time="0")
        if not check.passed:
            message = check.describe()
            failure = SubElement(
                case, "failure", message=_clean(message), type=check.kind
            )
            details = lost.get(check.figure.set) if check.kind == "against" else ""
            failure.text = _clean("\n".join(filter(None, (message, details))))
    indent(root)
    body = tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'


def _clean(text: str) -> str:
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", text)
