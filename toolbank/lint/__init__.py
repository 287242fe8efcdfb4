"""Check a catalogue of tools by rules, without a model.

A rule is a function that yields findings, and an entry of `RULES`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from toolbank.bank.records import Tool
from toolbank.lint.orders import find_hidden, find_orders
from toolbank.lint.places import Places, ToolPlace
from toolbank.lint.rule import CheckedTools, LintFinding, Rule
from toolbank.lint.search import find_same, find_unreachable
from toolbank.lint.texts import find_refused_names, find_undescribed, find_vague
from toolbank.system.errors import InputError

RULES = (
    Rule("same-description", "tools with the same description", find_same),
    Rule("unreachable", "tools that their own words do not find", find_unreachable),
    Rule("no-description", "tools that nothing describes", find_undescribed),
    Rule("vague-parameter", "parameters without meaning", find_vague),
    Rule("orders-to-model", "texts that give orders to a model", find_orders),
    Rule("hidden-characters", "invisible characters in texts", find_hidden),
    Rule("refused-name", "names that clients refuse", find_refused_names),
)


@dataclass(frozen=True)
class LintResult:
    """A finding with its rule and place."""

    rule: Rule
    finding: LintFinding
    place: ToolPlace


@dataclass(frozen=True)
class RuleChoice:
    """The rules to check, and those to ignore: RULE, or RULE:PATTERN for some tools.

    A pattern is that of a shell, such as `numpy.testing.*`.

    Raises:
        InputError: there is no such rule.
    """

    only: Sequence[str] = ()
    ignored: Sequence[str] = ()

    def __post_init__(self) -> None:
        names = [rule.name for rule in RULES]
        for name in (one.partition(":")[0] for one in (*self.only, *self.ignored)):
            if name not in names:
                raise InputError(
                    f"{name}: there is no such rule. The rules are {', '.join(names)}."
                )

    def ignores(self, rule: Rule, tool: str) -> bool:
        """Whether to ignore a rule for a tool."""
        whole = (one if ":" in one else f"{one}:*" for one in self.ignored)
        return any(fnmatchcase(f"{rule.name}:{tool}", pattern) for pattern in whole)

    def find_unused(self, tools: Sequence[Tool]) -> list[str]:
        """Return those to ignore whose pattern matches no tool."""
        parts = ((one, one.partition(":")) for one in self.ignored)
        return [
            one
            for one, (_, colon, pattern) in parts
            if colon and not any(fnmatchcase(tool.name, pattern) for tool in tools)
        ]


def check_tools(
    catalogue: CheckedTools, places: Places, choice: RuleChoice
) -> list[LintResult]:
    """Return the findings of the chosen rules, in the order of the rules and the tools."""
    return [
        LintResult(rule, finding, places.find(finding.tool))
        for rule in RULES
        if not choice.only or rule.name in choice.only
        for finding in rule.check(catalogue)
        if not choice.ignores(rule, finding.tool.name)
    ]
