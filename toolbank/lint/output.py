"""Findings as text, JSON and SARIF."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from toolbank.lint import RULES, LintResult
from toolbank.lint.orders import reveal
from toolbank.lint.rule import SEVERITIES, Severity
from toolbank.system.numbers import count
from toolbank.system.terminal import printable, wrap
from toolbank.system.version import __version__

_SHOWN = 5
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def format_results(
    results: Sequence[LintResult], n_tools: int, width: int, *, everything: bool
) -> Iterator[str]:
    """Iterate over lines: the findings by rule, up to 5 of each, then the counts."""
    cut = False
    for rule in RULES:
        found = [result for result in results if result.rule is rule]
        if not found:
            continue
        counts = _list_counts(Counter(result.severity for result in found))
        yield f"{rule.name}: {rule.summary} ({counts})"
        order = sorted(found, key=lambda result: SEVERITIES.index(result.severity))
        shown = order if everything else order[:_SHOWN]
        for result in shown:
            line = f"  {result.place}: {result.severity}: {result.finding.reason}."
            yield wrap(printable(reveal(line)), width, 4)
        if len(shown) < len(found):
            cut = True
            yield f"  and {len(found) - len(shown):,} more"
        yield wrap(f"  To do: {rule.remedy}", width, 4)
        yield ""
    counts = _list_counts(Counter(result.severity for result in results))
    yield f"{count(n_tools, 'tool')}: {counts or 'no findings'}."
    if cut:
        yield "--all shows all findings."


def _list_counts(counts: Mapping[Severity, int]) -> str:
    return ", ".join(count(counts[one], one) for one in SEVERITIES if counts.get(one))


def as_json(results: Sequence[LintResult], source: str, n_tools: int) -> dict[str, Any]:
    """Return the findings, and their counts by rule, as JSON."""
    return {
        "source": source,
        "tools": n_tools,
        "counts": dict(Counter(result.rule.name for result in results)),
        "findings": [
            {
                "rule": result.rule.name,
                "severity": result.severity,
                "tool": result.finding.tool.name,
                "parameter": result.finding.parameter,
                "others": list(result.finding.others),
                "file": result.place.file,
                "line": result.place.line,
                "address": result.place.address,
                "reason": result.finding.reason,
                "remedy": result.rule.remedy,
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
            "help": {"text": rule.remedy},
            "defaultConfiguration": {"level": rule.severity},
        }
        for rule in RULES
    ]
    names = [rule.name for rule in RULES]
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "toolbank",
                        "semanticVersion": __version__,
                        "rules": rules,
                    }
                },
                "columnKind": "unicodeCodePoints",
                "results": [
                    {
                        "ruleId": result.rule.name,
                        "ruleIndex": names.index(result.rule.name),
                        "level": result.severity,
                        "message": {
                            "text": f"{result.finding.reason}. {result.rule.remedy}"
                        },
                        "locations": [_locate(result, source)],
                        "partialFingerprints": {
                            "primaryLocationLineHash": _identify(result)
                        },
                    }
                    for result in results
                ],
            }
        ],
    }


def _locate(result: LintResult, source: str) -> dict[str, Any]:
    name = ".".join(filter(None, (result.finding.tool.name, result.finding.parameter)))
    return {
        "physicalLocation": {
            "artifactLocation": {"uri": quote(result.place.file or source, safe="/")},
            "region": {"startLine": result.place.line or 1},
        },
        "logicalLocations": [{"fullyQualifiedName": name, "kind": "function"}],
    }


def _identify(result: LintResult) -> str:
    """Identify a finding whatever the lines and the order of the tools."""
    finding = result.finding
    parts = (result.rule.name, finding.tool.name, finding.parameter, *finding.others)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
