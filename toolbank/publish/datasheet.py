"""The facts that a dataset card states: how the bank was made, and what was measured of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolbank.bank.files import read_tools
from toolbank.bank.profile import AXES, describe_classes
from toolbank.config.explain import check
from toolbank.llm.accounts import StepCalls, add_up_calls, rank_reasons
from toolbank.llm.engines import find_engine
from toolbank.publish.data import RowCounts
from toolbank.publish.from_run import RunResults
from toolbank.requests.write.config import fit_to_tools
from toolbank.system.folders import hash_files
from toolbank.system.numbers import count

if TYPE_CHECKING:
    from toolbank.run.recipe import Recipe

NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Evidence:
    """What facts are read from: the run's results, its settings, and the published files.

    `settings` is the published recipe. `prompts` maps the published templates, examples and schemas
    to their SHA-256. `rows` counts the
    published rows. `graded` and `queries` count the published and excluded requests with merged
    labels, and all of them.
    """

    story: RunResults
    settings: Mapping[str, Any]
    prompts: Mapping[str, str]
    rows: RowCounts = field(default_factory=lambda: RowCounts(0, {}))
    graded: int = 0
    queries: int = 0


@dataclass(frozen=True)
class Fact:
    """A named fact of the datasheet."""

    name: str
    value: str


def collect_evidence(
    story: RunResults, rows: RowCounts, recipe: Recipe, folder: Path, bank: Path
) -> Evidence:
    """Collect what the facts of a publication of a bank in a folder are read from."""
    prompts = hash_files(folder, filter(Path.is_file, (folder / "prompts").rglob("*")))
    total = sum(rows.queries.values()) + rows.aside
    settings = recipe.model_dump(mode="json")
    if story.is_written:
        config = recipe.generate
        sets = config.candidate_sets
        # What an engine brings along is not offered by the settings.
        if sets or find_engine(config).default_queries is None:
            offered = None
        else:
            offered = fit_to_tools(config, read_tools(bank / "tools.parquet")).offered
        settings["generate"] |= {
            "offered": offered,
            "candidate_sets": sets and sets.name,
        }
    graded = sum(rows.graders.values())
    return Evidence(story, settings, prompts, rows, graded, total)


def list_facts(evidence: Evidence) -> list[Fact]:
    """List all facts of the datasheet; what was not measured is said to be so."""
    return [Fact(name, read(evidence) or NOT_MEASURED) for name, read in FACTS.items()]


def _describe_generator(evidence: Evidence) -> str:
    return evidence.story.writer or (
        "" if evidence.story.is_written else "a dataset of others"
    )


_OF_MODEL = ("temperature", "max_tokens", "parameters")
_SETTINGS = (
    *(*_OF_MODEL, "queries", "offered", "sampling"),
    *("candidate_sets", "min_tools", "max_tools", "tools_per_query", "near_duplicate"),
    "weights",
)


def _describe_settings(evidence: Evidence) -> str:
    if not evidence.story.is_written:
        return f"seed {evidence.story.info.get('seed', 0)}"
    made = evidence.settings.get("generate") or {}
    parts = [
        f"{key} {made[key]}"
        for key in _SETTINGS
        if made.get(key) and (evidence.prompts or key not in _OF_MODEL)
    ]
    return ", ".join([f"seed {evidence.story.info.get('seed', 0)}", *parts])


def _describe_prompts(evidence: Evidence) -> str:
    hashes = evidence.prompts.items()
    named = [f"{name} (SHA-256 {sha256[:16]}…)" for name, sha256 in hashes]
    return ", ".join(named) or "none were used"


def _describe_attempts(evidence: Evidence) -> str:
    counts = evidence.story.info.get("counts")
    if not isinstance(counts, dict) or not isinstance(counts.get("attempts"), int):
        return ""
    parts = [f"{counts.get(name, 0):,} {name}" for name in ("accepted", "declined")]
    attempts = count(counts["attempts"], "attempt")
    return ", ".join((attempts, *parts, *_list_losses(counts)))


def _describe_missing(evidence: Evidence) -> str:
    rows = evidence.rows
    if not rows.missing:
        return "none"
    losses = evidence.story.missing
    counts = (
        {"rejected": losses.counts.rejected, "failed": losses.counts.failed}
        if losses
        else {}
    )
    found = evidence.story.verification
    settled = found.missing if found else None
    fits = f"{settled.a_tool_fits:,} others fit a tool" if settled else "not verified"
    graded = f"{rows.missing:,}, of which {rows.missing_graded:,} graded"
    return ", ".join((graded, fits, *_list_losses(counts)))


def _describe_asks(evidence: Evidence) -> str:
    if (asks := evidence.story.asks) is None:
        return "none were written" if evidence.story.is_written else ""
    losses = {"rejected": asks.counts.rejected, "failed": asks.counts.failed}
    return ", ".join((f"{asks.counts.accepted:,} accepted", *_list_losses(losses)))


def _list_losses(counts: Mapping[str, Any]) -> Iterator[str]:
    for outcome in ("rejected", "failed"):
        for reason, n in rank_reasons(Counter(counts.get(outcome) or {})):
            yield f"{n:,} {outcome}: {reason}"


def _describe_graders(evidence: Evidence) -> str:
    verification = evidence.story.verification
    graded = verification and verification.counts.requests
    return ", ".join(verification.name_graders()) if verification and graded else ""


def _describe_share(evidence: Evidence) -> str:
    share = 100 * evidence.graded / max(evidence.queries, 1)
    of = f"{evidence.graded:,} of {count(evidence.queries, 'request')} ({share:.1f} %)"
    return of if evidence.story.verification or evidence.graded else ""


def _describe_agreement(evidence: Evidence) -> str:
    verification = evidence.story.verification
    found = verification.agreement if verification else None
    if found is None or not found.labels:
        return ""
    return f"{found.confirmed:,} of {count(found.labels, 'first label')} confirmed"


def _describe_judge(evidence: Evidence) -> str:
    judge = evidence.story.judge
    return f"{judge.judge}, {count(judge.n, 'pair')}" if judge and judge.n else ""


def _describe_price(evidence: Evidence) -> str:
    """The dollars of all steps, or their tokens if a price is unknown."""
    story = evidence.story
    own = check(story.info.get("calls") or {}, dict[str, StepCalls], Path("bank.json"))
    parts = (story.asks, story.missing, story.verification, story.judge)
    others = [one.calls for one in parts if one]
    calls = [one for part in (own, *others) for one in (part or {}).values()]
    asked = [one for one in calls if one.prompt_tokens or one.completion_tokens]
    if not asked:
        return "no model was called" if story.is_written else ""
    total = add_up_calls(asked)
    price = "no price was set" if total.dollars is None else f"${total.dollars:,.2f}"
    return (
        f"{price} ({total.prompt_tokens:,} tokens in, {total.completion_tokens:,} out)"
    )


def _describe_licences(evidence: Evidence) -> str:
    return "; ".join(evidence.story.licences)


def _describe_kappa(evidence: Evidence) -> str:
    verification = evidence.story.verification
    kappa = verification.kappa if verification else None
    return "; ".join(kappa.describe()) if kappa else ""


def _describe_holes(evidence: Evidence) -> str:
    verification = evidence.story.verification
    holes = verification.holes if verification else None
    return holes.describe() if holes else ""


def _describe_copies(evidence: Evidence) -> str:
    found = evidence.story.copies
    pairs = [one for one in found.sets if one.against == "test"] if found else []
    return "; ".join(one.describe() for one in pairs)


def _describe_classes(evidence: Evidence) -> str:
    profiles = evidence.story.profiles
    return "; ".join(describe_classes(axis, profiles) for axis in AXES if profiles)


FACTS: dict[str, Callable[[Evidence], str]] = {
    "Generator": _describe_generator,
    "Settings": _describe_settings,
    "Prompts": _describe_prompts,
    "Attempts": _describe_attempts,
    "Asks": _describe_asks,
    "Requests that no tool fits": _describe_missing,
    "Graders": _describe_graders,
    "Requests with merged labels": _describe_share,
    "First labels confirmed by grades": _describe_agreement,
    "Agreement of two readers (Cohen's kappa)": _describe_kappa,
    "Missing labels (hole check)": _describe_holes,
    "Copies and near-copies between train and test": _describe_copies,
    "Classes of the requests": _describe_classes,
    "Judge of the wording": _describe_judge,
    "Price": _describe_price,
    "Licence of the sources, by their packages' metadata": _describe_licences,
}
"""The facts by name; each reads its value, or "" if it was not measured."""
