"""Findings as text, JSON and SARIF."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from urllib.parse import quote

from toolbank.lint import RULES, LintResult
from toolbank.lint.orders import reveal
from toolbank.lint.rule import SEVERITIES, group_by
from toolbank.system.numbers import count
from toolbank.system.terminal import printable, wrap
from toolbank.system.version import __version__

_SHOWN = 5
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def format_results(
    results: Sequence[LintResult], n_tools: int, width: int, *, everything: bool
) -> Iterator[str]:
    """Iterate over lines: the findings by rule, up to 5 of each and no notes, then the counts."""
    cut = False
    for found in group_by(results, lambda result: result.rule.name):
        rule = found[0].rule
        order = sorted(
            found, key=lambda result: SEVERITIES.index(result.finding.severity)
        )
        told = [result for result in order if result.finding.severity != "note"]
        shown = order if everything else told[:_SHOWN]
        yield f"{rule.name}: {rule.summary} ({_count(found)})"
        for result in shown:
            reason, remedy = result.finding.reason, result.finding.remedy
            line = f"  {result.place}: {result.finding.severity}: {reason}. {remedy}."
            yield wrap(printable(reveal(line)), width, 4)
        if len(shown) < len(found):
            cut = True
            yield f"  and {len(found) - len(shown):,} more"
        yield ""
    yield f"{count(n_tools, 'tool')}: {_count(results) or 'no findings'}."
    if cut:
        yield "--all shows all findings."


def _count(results: Iterable[LintResult]) -> str:
    counts = Counter(result.finding.severity for result in results)
    return ", ".join(count(counts[one], one) for one in SEVERITIES if counts[one])


def as_json(results: Sequence[LintResult], source: str, n_tools: int) -> dict[str, Any]:
    """Return the findings, and their counts by rule, as JSON."""
    return {
        "source": source,
        "tools": n_tools,
        "counts": dict(Counter(result.rule.name for result in results)),
        "findings": [
            {
                "rule": result.rule.name,
                **vars(result.finding),
                "tool": result.finding.tool.name,
                **vars(result.place),
            }
            for result in results
        ],
    }


def as_sarif(results: Sequence[LintResult], source: str) -> dict[str, Any]:
    """Return the findings as a SARIF 2.1.0 log that GitHub code scanning accepts.

    GitHub needs a message, a rule and a physical location of each result, takes paths from the root
    of the repository, and recognises a known result by `primaryLocationLineHash`. A tool without a
    file has the address of its source as its path.
    """
    rules = [
        {
            "id": rule.name,
            "shortDescription": {"text": rule.summary},
            "fullDescription": {"text": f"{rule.summary}."},
            "help": {"text": rule.check.__doc__},
        }
        for rule in RULES
    ]
    driver = {"name": "toolbank", "semanticVersion": __version__, "rules": rules}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_as_sarif(result, source) for result in results],
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _as_sarif(result: LintResult, source: str) -> dict[str, Any]:
    finding, place = result.finding, result.place
    name = ".".join(filter(None, (finding.tool.name, finding.parameter)))
    physical = {
        "artifactLocation": {"uri": quote(place.file or source, safe="/")},
        "region": {"startLine": place.line or 1},
    }
    logical = [{"fullyQualifiedName": name, "kind": "function"}]
    # The same whatever the lines and the order of the tools.
    parts = (result.rule.name, finding.tool.name, finding.parameter, *finding.others)
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
    return {
        "ruleId": result.rule.name,
        "ruleIndex": RULES.index(result.rule),
        "level": result.finding.severity,
        "message": {"text": f"{finding.reason}. {finding.remedy}."},
        "locations": [{"physicalLocation": physical, "logicalLocations": logical}],
        "partialFingerprints": {"primaryLocationLineHash": digest},
    }
