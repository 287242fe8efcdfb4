"""The facts that a dataset card states: how the bank was made, and what was measured of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolbank.bank.files import read_tools
from toolbank.bank.profile import describe_classes
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

_OF_MODEL = ("temperature", "max_tokens", "parameters")
_SETTINGS = (
    *(*_OF_MODEL, "queries", "offered", "sampling"),
    *("candidate_sets", "min_tools", "max_tools", "tools_per_query", "near_duplicate"),
    "weights",
)


def list_facts(
    story: RunResults, rows: RowCounts, recipe: Recipe, folder: Path, bank: Path
) -> dict[str, str]:
    """Return the facts of the datasheet by name; one that was not measured is said to be so.

    `folder` has the published rows and prompts, `recipe` is the published one, and `bank` is the
    folder of the run's bank.
    """
    prompts = hash_files(folder, filter(Path.is_file, (folder / "prompts").rglob("*")))
    verified, asks, judge = story.verification, story.asks, story.judge
    agreement = verified and verified.agreement
    graded = sum(rows.graders.values())
    queries = sum(rows.queries.values()) + rows.aside
    copies = story.copies.sets if story.copies else []
    facts = {
        "Generator": story.writer
        or ("" if story.is_written else "a dataset of others"),
        "Settings": ", ".join(
            _list_settings(story, recipe, bank, has_prompts=bool(prompts))
        ),
        "Prompts": ", ".join(
            f"{name} (SHA-256 {sha256[:16]}…)" for name, sha256 in prompts.items()
        )
        or "none were used",
        "Attempts": ", ".join(_list_attempts(story.info.get("counts"))),
        "Asks": ", ".join(
            (
                f"{asks.counts.accepted:,} accepted",
                *_list_losses("rejected", asks.counts.rejected),
                *_list_losses("failed", asks.counts.failed),
            )
        )
        if asks
        else "none were written" * story.is_written,
        "Requests that no tool fits": ", ".join(_list_missing(story, rows)) or "none",
        "Graders": ", ".join(verified.name_graders())
        if verified and verified.counts.requests
        else "",
        "Requests with merged labels": (
            f"{graded:,} of {count(queries, 'request')} "
            f"({100 * graded / max(queries, 1):.1f} %)"
        )
        if verified or graded
        else "",
        "First labels confirmed by grades": (
            f"{agreement.confirmed:,} of {count(agreement.labels, 'first label')} confirmed"
        )
        if agreement and agreement.labels
        else "",
        "Agreement of two readers (Cohen's kappa)": "; ".join(
            verified.kappa.describe() if verified and verified.kappa else ()
        ),
        "Missing labels (hole check)": verified.holes.describe()
        if verified and verified.holes
        else "",
        "Copies and near-copies between train and test": "; ".join(
            one.describe() for one in copies if one.against == "test"
        ),
        "Classes of the requests": "; ".join(_list_classes(rows)),
        "Judge of the wording": f"{judge.judge}, {count(judge.n, 'pair')}"
        if judge and judge.n
        else "",
        "Price": _describe_price(story),
        "Licence of the sources": "; ".join(story.licences)
        or "not given by the dataset",
    }
    return {name: value or NOT_MEASURED for name, value in facts.items()}


def _list_classes(rows: RowCounts) -> Iterator[str]:
    yield from describe_classes(rows.classes.elements())
    unclassed = rows.classes["fits", None]
    if 0 < unclassed < sum(rows.queries.values()):
        yield f"{count(unclassed, 'request has', 'requests have')} no class"


def _list_settings(
    story: RunResults, recipe: Recipe, bank: Path, *, has_prompts: bool
) -> Iterator[str]:
    yield f"seed {story.info.get('seed', 0)}"
    if not story.is_written:
        return
    config = recipe.generate
    made = config.model_dump(mode="json")
    # Own candidate sets, and those of an engine that brings its own, have other sizes.
    made["offered"] = None
    if config.candidate_sets:
        made["candidate_sets"] = config.candidate_sets.name
    elif find_engine(config).default_queries is not None:
        tools = read_tools(bank / "tools.parquet")
        made["offered"] = fit_to_tools(config, tools).offered
    for key in _SETTINGS:
        if made.get(key) and (has_prompts or key not in _OF_MODEL):
            yield f"{key} {made[key]}"


def _list_attempts(counts: Any) -> Iterator[str]:
    if isinstance(counts, dict) and isinstance(counts.get("attempts"), int):
        yield count(counts["attempts"], "attempt")
        for name in ("accepted", "declined"):
            yield f"{counts.get(name, 0):,} {name}"
        for outcome in ("rejected", "failed"):
            yield from _list_losses(outcome, counts.get(outcome))


def _list_missing(story: RunResults, rows: RowCounts) -> Iterator[str]:
    if not rows.missing:
        return
    yield f"{rows.missing:,}, of which {rows.missing_graded:,} graded"
    if story.verification and (settled := story.verification.missing):
        yield f"{settled.a_tool_fits:,} others fit a tool"
    if story.missing:
        yield from _list_losses("rejected", story.missing.counts.rejected)
        yield from _list_losses("failed", story.missing.counts.failed)


def _list_losses(outcome: str, counts: Mapping[str, int] | None) -> Iterator[str]:
    for reason, n in rank_reasons(Counter(counts or {})):
        yield f"{n:,} {outcome}: {reason}"


def _describe_price(story: RunResults) -> str:
    """The dollars of all steps, or their tokens if a price is unknown."""
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
