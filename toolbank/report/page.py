"""Collect the content of the page as plain data for the templates."""

from __future__ import annotations

import json
import platform
import shlex
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from random import Random
from typing import Any

from toolbank.bank.bank import Bank
from toolbank.bank.records import Ask, Tool, find_first_twins
from toolbank.config.yaml import dump_mapping
from toolbank.evaluation import CLASS_NAMES, main_k
from toolbank.evaluation.figures import FEWEST, Difference
from toolbank.llm.engines import load_writer
from toolbank.report import ReportConfig
from toolbank.report.analyses import PARTS, describe_misses, describe_sweeps
from toolbank.report.classes import tabulate_classes
from toolbank.report.content import Content, WrittenTexts
from toolbank.report.quality import draw_lorenz, list_figures, list_tenths
from toolbank.report.scores import (
    ScoreTable,
    best_score,
    tabulate,
    tabulate_differences,
    widest,
)
from toolbank.report.sections import (
    Bar,
    count_endings,
    count_splits,
    count_tools,
    cover,
    follow_attempts,
    part_searches,
    sample_changed,
    sample_queries,
    summarise_calls,
)
from toolbank.report.svg import lay_out, overlay
from toolbank.report.vectors import MADE_OF, Space, compare_cosines, read_space
from toolbank.requests.quality.measure import measure_dispersion, measure_quality
from toolbank.retrievers.calibration_requests import REMEDY
from toolbank.system.errors import InputError

_EXAMPLES = 3


def follow_texts(written: WrittenTexts) -> list[Bar]:
    """Count the outcomes of texts: accepted first, then every reason, the largest first."""
    counts = written.counts
    rows = [("declined", "declined", counts.declined)] if counts.declined else []
    rows += [("rejected", *row) for row in counts.rejected.items()]
    rows += [("failed", *row) for row in counts.failed.items()]
    total = counts.accepted + sum(count for *_, count in rows) or 1
    bars = [Bar("accepted", counts.accepted, counts.accepted / total)]
    for outcome, reason, count in sorted(rows, key=lambda row: (-row[2], row[1])):
        said = f"{outcome}: {reason}"
        label = "not written by the writer" if outcome == "declined" else said
        examples = dict.fromkeys(
            one.detail
            for one in written.not_accepted
            if (one.outcome, one.reason) == (outcome, reason) and one.detail
        )
        bars.append(Bar(label, count, count / total, tuple(examples)[:_EXAMPLES]))
    return bars


def sample_asks(
    asks: Sequence[Ask], n: int, seed: int
) -> list[tuple[str, list[tuple[str, str]]]]:
    """Sample up to n tools, sorted by name, each with the kinds and texts of its asks."""
    by_tool: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for ask in asks:
        by_tool[ask.tool].append((ask.kind, ask.ask))
    names = sorted(by_tool)
    chosen = Random(f"{seed}:report:asks").sample(names, min(n, len(names)))
    return [(name, by_tool[name]) for name in sorted(chosen)]


_LIBRARIES = ("numpy", "polars", "bm25s", "sentence-transformers", "torch")
_MOST_LISTED = 2000
_MODULE_COLOURS = 6
# From the lowest to the topmost.
_DRAWN = ("queries", "descriptions", "requests")


def describe_page(
    content: Content, config: ReportConfig, chosen: str
) -> dict[str, Any]:
    """Make the context of the templates.

    Raises:
        InputError: a fitted retriever's files are damaged.
    """
    bank = content.bank
    made = bank.info.get("generate") or {}
    engine = _describe_engine(content)
    writer = load_writer(engine["name"])
    coverage = cover(bank)
    named = {name: bank.tools[position] for name, position in bank.index.items()}
    quality = measure_quality(bank, content.seed)
    entries = _list_tools(bank)
    k = main_k(figure.k for figure in content.figures)
    figures = [one for one in content.figures if one.set not in CLASS_NAMES]
    differences = [one for one in content.differences if one.set not in CLASS_NAMES]
    shown = [one for one in figures if one.metric != "recall_or_twin" or one.k == k]
    recall = tabulate(shown, ["recall", "recall_or_twin"])
    # Planners are trained after the page is written, and their settings may change until then.
    shown_recipe = {k: v for k, v in content.recipe.items() if k != "planner"}
    counts = {"attempts": 0, "accepted": 0, "leak_word": 0}
    counts |= bank.info.get("counts") or {}
    return {
        "title": config.title or str(content.recipe.get("name") or content.name),
        "run_name": content.name,
        "domain": bank.info.get("domain", ""),
        "engine": engine,
        "asks_model": writer is None or writer.asks_model,
        "copies_wording": writer is not None and writer.copies_wording,
        "plays_back": writer is not None and writer.plays_back,
        "counts": counts,
        "missing_tools": made.get("missing_tools") or {},
        "prompt_hash": str(made.get("prompt_hash") or ""),
        "n_tools": len(bank.tools),
        "n_queries": len(bank.queries),
        "n_asks": len(bank.asks),
        "splits": count_splits(bank.queries),
        "sources": _describe_sources(content),
        "k": k,
        "chosen": chosen,
        "headlines": _headlines(recall, k, content.differences, chosen),
        "recall": recall,
        "fewest": FEWEST,
        "axis_end": widest(recall, f"Recall@{k}") if recall else 1.0,
        "differences": tabulate_differences(differences, k),
        "other_metrics": tabulate(figures, ["ndcg", "comp", "mrr"]),
        "classes": tabulate_classes(bank, content.figures, k),
        "n_profiled": len(bank.classes),
        "by_verified": sum(one.labels == "verified" for one in bank.classes.values()),
        "copies": content.copies,
        "copies_dropped": (bank.info.get("copies") or {}).get("queries_left_out", 0),
        "drops_copies": ((content.recipe.get("profile") or {}).get("copies") or {}).get(
            "drop", False
        ),
        "misses": describe_misses(content),
        "failure_parts": PARTS,
        "sweeps": describe_sweeps(content, k),
        "calibration": content.calibration,
        "missing": content.missing,
        "missing_endings": follow_texts(content.missing) if content.missing else [],
        "missing_samples": sample_queries(bank.missing, config.samples, content.seed),
        "n_missing": len(bank.missing),
        "n_missing_sure": len(bank.sure_missing),
        "refusals": content.refusals,
        "calibration_remedy": REMEDY,
        "warnings": content.warnings,
        "labels": [label for label in content.labels if label.unknown],
        "comparisons": content.judge.comparisons if content.judge else [None],
        "verification": content.verification,
        "learns_first": content.recipe.get("labels") == "first",
        "verified_samples": sample_changed(bank, config.samples, content.seed),
        "samples": [
            {"query": query, "tools": [(name, named.get(name)) for name in query.tools]}
            for query in sample_queries(bank.queries, config.samples, content.seed)
        ],
        "asked_numbers": content.asked_numbers,
        "quality": quality,
        "quality_figures": list_figures(quality),
        "lorenz": draw_lorenz(quality),
        "tenths": list_tenths(quality),
        "tools_per_query": count_tools(bank.queries),
        "coverage": coverage,
        "unused_tools": [
            tool
            for tool, uses in zip(bank.tools, coverage.uses, strict=True)
            if not uses
        ],
        "listed_tools": entries[:_MOST_LISTED],
        "lists_all": len(entries) <= _MOST_LISTED,
        "lengths": overlay(
            [
                ("drafts", [len(q.draft.split()) for q in bank.queries if q.draft]),
                ("polished", [len(q.query.split()) for q in bank.queries if q.query]),
            ],
        ),
        "dataset": bank.info.get("dataset") or {},
        "left_out": bank.info.get("left_out") or {},
        "sources_said": bank.info.get("sources") or {},
        "left_out_objects": _list_left_out(bank.info),
        "withheld": (bank.info.get("withheld") or {}).get("tools") or [],
        "attempts": follow_attempts(content.attempts, made.get("examples") or {}),
        "endings": count_endings(content.attempts),
        "asks": content.asks,
        "ask_endings": follow_texts(content.asks) if content.asks else [],
        "ask_samples": sample_asks(content.bank.asks, config.samples, content.seed),
        "calls": summarise_calls(
            {
                "generate": content.calls,
                "asks": content.asks.calls if content.asks else {},
                "missing": content.missing.calls if content.missing else {},
                "judge": (content.judge and content.judge.calls) or {},
                "verify": (content.verification and content.verification.calls) or {},
                **part_searches(content.searches),
            },
            counts["accepted"],
        ),
        **_describe_vectors(content),
        # quality.json and this page are written afterwards.
        "exists": lambda name: (
            name in ("quality.json", "report.html")
            or (content.models.parent / name).exists()
        ),
        "retrievers": [path.name for path in content.model_folders()],
        "example": shlex.quote(_example(bank)),
        "run_name_shell": shlex.quote(content.name),
        "run_name_python": json.dumps(content.name, ensure_ascii=False),
        "example_python": json.dumps(_example(bank), ensure_ascii=False),
        "versions": _versions(bank.info),
        "seed": content.seed,
        "recipe": dump_mapping(shown_recipe) if shown_recipe else "",
    }


def _describe_engine(content: Content) -> dict[str, str]:
    made = content.bank.info.get("generate") or {}
    settings = content.recipe.get("generate") or {}
    replies = str(settings.get("replies") or "")
    return {
        "name": str(made.get("engine") or settings.get("engine") or ""),
        "model": str(made.get("model") or settings.get("model") or ""),
        "replies": replies.rpartition("/")[2],
    }


def _describe_sources(content: Content) -> list[str]:
    info = content.bank.info
    if "dataset" in info:
        return [f"a dataset of others ({info['dataset']['type']})"]
    return [source["source"] for source in info.get("sources", {}).get("sources", ())]


def _list_left_out(info: Mapping[str, Any]) -> list[tuple[str, str, int]]:
    """List what was skipped in the sources: source, reason and count, the most first."""
    sources = (info.get("sources") or {}).get("sources") or ()
    rows = [
        (str(source["source"]), reason, number)
        for source in sources
        for reason, number in (source.get("left_out") or {}).items()
        if isinstance(number, int)
    ]
    return sorted(rows, key=lambda row: -row[2])


def _headlines(
    tables: Sequence[ScoreTable],
    k: int | None,
    differences: Sequence[Difference],
    chosen: str,
) -> list[dict[str, Any]]:
    """Find the recall of the chosen retriever on the test split and on every labelled file.

    Without one, it is that of the best. `plain` is that of the retriever of descriptions, if it is
    another one.
    """
    plain = next(
        (one.against for one in differences if one.baseline == "descriptions"), ""
    )
    found = []
    for table in tables:
        scores = dict(table.column(f"Recall@{k}"))
        own = scores.get(chosen)
        shown = (chosen, own) if own else best_score(table, f"Recall@{k}")
        if shown and not table.is_part:
            retriever, score = shown
            found.append(
                {
                    "table": table,
                    "retriever": retriever,
                    "score": score,
                    "plain": None if retriever == plain else scores.get(plain),
                }
            )
    return found


def _list_tools(bank: Bank) -> list[tuple[Tool, list[str], int]]:
    """List tools with their twins, and how many requests use any of them; the most used first."""
    first = find_first_twins(bank.tools)
    uses = Counter(
        number
        for query in bank.queries
        for number in {first[bank.index[n]] for n in query.tools if n in bank.index}
    )
    twins: dict[int, list[str]] = {}
    for position, (tool, number) in enumerate(zip(bank.tools, first, strict=True)):
        names = twins.setdefault(number, [])
        if position != number:
            names.append(tool.name)
    rows = [
        (bank.tools[number], names, uses[number]) for number, names in twins.items()
    ]
    return sorted(rows, key=lambda row: (-row[2], row[0].name))


def _describe_vectors(content: Content) -> dict[str, Any]:
    nothing: dict[str, Any] = {"cosines": [], "maps": {}, "no_vectors": ""}
    try:
        space = read_space(content)
    except InputError as error:
        return {**nothing, "no_vectors": str(error)}
    if space is None:
        return nothing
    points = lay_out(space, content.bank, content.seed)
    # Each tool by its description and by its requests.
    moves = [points[name] for name in MADE_OF[::-1] if name in points]
    tools = points.get(next(iter(space.methods)), [])
    modules = Counter(point.group for point in tools).most_common()
    named = [name for name, _ in modules[:_MODULE_COLOURS]]
    return {
        **nothing,
        "cosines": _describe_cosines(space, content),
        "dispersion": measure_dispersion(
            [query.query for query in space.queries],
            space.query_vectors,
            content.seed,
            space.encoder,
        ),
        "maps": {name: points[name] for name in _DRAWN if name in points},
        "moves": list(zip(*moves, strict=True)) if len(moves) == 2 else [],
        "tool_points": tools,
        "modules": [(name or "(no module)", dict(modules)[name]) for name in named],
        "n_other_modules": sum(n for name, n in modules if name not in named),
        "colour_of": {name: position for position, name in enumerate(named)},
    }


def _describe_cosines(space: Space, content: Content) -> list[dict[str, Any]]:
    described = []
    for method, vectors in space.methods.items():
        cosines = compare_cosines(space, content.bank, method, content.seed)
        if cosines is not None:
            samples = [
                ("random tools", cosines.negative),
                ("tools it needs", cosines.positive),
            ]
            figure = overlay(samples, limits=(-0.4, 1.0))
            described.append(
                {"method": vectors.label, "cosines": cosines, "figure": figure}
            )
    return described


def _example(bank: Bank) -> str:
    test = bank.split("test") or bank.queries
    shortest = min(test, key=lambda query: (len(query.query), query.id), default=None)
    return " ".join(shortest.query.split())[:120] if shortest else "your request"


def _versions(info: Mapping[str, Any]) -> list[tuple[str, str]]:
    found = [
        ("toolbank", str(info.get("versions", {}).get("toolbank", ""))),
        ("Python", platform.python_version()),
    ]
    for name in _LIBRARIES:
        try:
            found.append((name, version(name)))
        except PackageNotFoundError:
            continue
    return found
