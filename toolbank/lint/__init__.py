"""Check a catalogue of tools by rules, without a model.

A rule is a function that yields findings, and an entry of `RULES`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from toolbank.lint.duplicates import find_copied, find_indistinguishable
from toolbank.lint.names import find_refused_names
from toolbank.lint.orders import find_hidden_characters, find_orders
from toolbank.lint.places import Places, ToolPlace
from toolbank.lint.reach import find_shadowed, find_unreachable
from toolbank.lint.rule import CheckedTools, LintFinding, Rule, Severity
from toolbank.lint.texts import (
    find_repeated_names,
    find_undescribed,
    find_vague_parameters,
)
from toolbank.system.errors import InputError

RULES = (
    Rule(
        "indistinguishable",
        "error",
        "tools that cannot be told apart",
        "Remove all but one, or say in each description what sets it apart, such as the service.",
        find_indistinguishable,
    ),
    Rule(
        "copied-description",
        "warning",
        "tools with different names and the same description",
        "Describe what each of them does.",
        find_copied,
    ),
    Rule(
        "shadowed",
        "warning",
        "tools that another one hides in a search",
        "Let the first sentence say what sets the tool apart from the one above it.",
        find_shadowed,
    ),
    Rule(
        "unreachable",
        "error",
        "tools that their own description does not find",
        "Describe the tool in words that only it has.",
        find_unreachable,
    ),
    Rule(
        "no-description",
        "error",
        "tools without a description",
        "Say what the tool does, and when to use it.",
        find_undescribed,
    ),
    Rule(
        "name-as-description",
        "note",
        "descriptions that only repeat the name",
        "Say what the name does not: what the tool takes and returns, and when to use it.",
        find_repeated_names,
    ),
    Rule(
        "vague-parameter",
        "warning",
        "parameters without meaning",
        "Describe the parameter, or name it after what it contains.",
        find_vague_parameters,
    ),
    Rule(
        "orders-to-model",
        "error",
        "texts that give orders to a model",
        "Do not use the tool until you know why the text is there. Describe what the tool does, not "
        "what the model must do.",
        find_orders,
    ),
    Rule(
        "hidden-characters",
        "error",
        "invisible characters in texts",
        "Remove the characters. If you did not write them, do not use the tool.",
        find_hidden_characters,
    ),
    Rule(
        "refused-name",
        "error",
        "names that clients refuse",
        "Shorten the name to 64 characters, including those that the client adds, and use only "
        "letters, digits, _ and -.",
        find_refused_names,
    ),
)


@dataclass(frozen=True)
class LintResult:
    """A finding with its rule and place."""

    rule: Rule
    finding: LintFinding
    place: ToolPlace

    @property
    def severity(self) -> Severity:
        """The severity of the finding, or else that of its rule."""
        return self.finding.severity or self.rule.severity


def check_tools(
    catalogue: CheckedTools, places: Places, choice: RuleChoice
) -> list[LintResult]:
    """Return the findings of the chosen rules, in the order of the rules and the tools."""
    return [
        LintResult(rule, finding, places.find(finding.tool))
        for rule in choice.rules
        for finding in rule.check(catalogue)
        if not choice.ignores(rule, finding.tool.name)
    ]


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
        for name in (*self.only, *(one.partition(":")[0] for one in self.ignored)):
            if name not in names:
                raise InputError(
                    f"{name}: there is no such rule. The rules are {', '.join(names)}."
                )

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules that are not ignored for all tools."""
        return tuple(
            rule
            for rule in RULES
            if (not self.only or rule.name in self.only)
            and rule.name not in self.ignored
        )

    def ignores(self, rule: Rule, tool: str) -> bool:
        """Whether a rule is ignored for a tool."""
        parts = (one.partition(":") for one in self.ignored)
        return any(name == rule.name and fnmatchcase(tool, p) for name, _, p in parts)
