"""The stages in order: what each depends on, and what it leaves in the run folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

from toolbank.bank.bank import Bank
from toolbank.bank.files import (
    read_tools,
    write_attempts,
    write_queries,
    write_tools,
)
from toolbank.bank.records import Tool
from toolbank.config.assets import find_asset
from toolbank.config.shape import shape
from toolbank.llm.accounts import describe_calls
from toolbank.llm.config import EngineConfig
from toolbank.recipe import Recipe
from toolbank.run.dataset import dataset_depends, describe_splits, load_dataset
from toolbank.run.evaluate import evaluate_bank, evaluate_depends
from toolbank.run.fit import fit_depends, fit_retriever
from toolbank.run.folder import RunFolder, stage_key
from toolbank.run.stage import (
    Outcome,
    Stage,
    bank_hashes,
    hash_file,
    model_hashes,
)
from toolbank.system.errors import InputError
from toolbank.system.files import read_json, sha256_file, write_json
from toolbank.system.version import __version__

# Libraries whose versions may change a bank's content or its files' bytes.
_SHAPE_THE_BANK = ("numpydoc", "polars")


def make_stages(recipe: Recipe, folder: RunFolder) -> list[Stage]:
    """The stages of a recipe in their order, bound to a run folder."""

    def stage(
        name: str, depends: Any, work: Any, *args: Any, refresh: Any = None
    ) -> Stage:
        return Stage(
            name,
            partial(depends, *args, recipe, folder),
            partial(work, *args, recipe, folder),
            refresh,
        )

    if recipe.dataset is not None:
        made = [stage("dataset", dataset_depends, load_dataset)]
    else:
        made = _making_stages(recipe, folder, stage)
    return [
        *made,
        *(
            stage(f"retrievers/{config.label}", fit_depends, fit_retriever, config)
            for config in recipe.retrievers
        ),
        stage("evaluate", evaluate_depends, evaluate_bank),
        stage("report", _report_depends, _report),
    ]


def current_tools(recipe: Recipe, folder: RunFolder) -> tuple[Tool, ...]:
    """The tools of a recipe: from the run folder if they are up to date, else read anew.

    A crawl keeps its pages in the run folder's cache, so that they are not fetched again.
    """
    from toolbank.sources.collect import collect_tools

    key = stage_key("sources", _sources_depends(recipe, folder))
    if folder.is_done("sources", key):
        return read_tools(folder.bank / "tools.parquet")
    return collect_tools(recipe.sources, folder.cache).tools


def _making_stages(
    recipe: Recipe, folder: RunFolder, stage: Callable[..., Stage]
) -> list[Stage]:
    """The stages that make a bank."""
    return [
        stage("sources", _sources_depends, _collect),
        stage(
            "generate",
            _generate_depends,
            _generate,
            refresh=partial(
                _refresh_calls, folder.bank / "bank.json", recipe.generate, folder
            ),
        ),
        stage(
            "judge",
            _judge_depends,
            _judge,
            refresh=partial(_refresh_calls, folder.judge, recipe.judge, folder),
        ),
    ]


def _sources_depends(recipe: Recipe, _: RunFolder) -> dict[str, Any]:
    from toolbank.sources.collect import source_versions

    return {
        "sources": [shape(source) for source in recipe.sources],
        "versions": source_versions(recipe.sources),
        "toolbank": __version__,
    }


def _collect(recipe: Recipe, folder: RunFolder) -> Outcome:
    from toolbank.sources.collect import collect_tools

    collected = collect_tools(recipe.sources, folder.cache)
    tools, info = folder.bank / "tools.parquet", folder.bank / "sources.json"
    write_tools(tools, collected.tools)
    write_json(info, collected.info)
    files = [tools, info]
    if collected.crawls:
        files.append(folder.bank / "crawl.json")
        write_json(files[-1], {"sources": collected.crawls})
    return Outcome(
        f"{len(collected.tools):,} tools",
        tuple(files),
        complete=collected.complete,
        problems=collected.problems,
    )


def _generate_depends(recipe: Recipe, folder: RunFolder) -> dict[str, Any]:
    from toolbank.generate.prompts import prompt_hash
    from toolbank.generate.writers import find_writer

    config = recipe.generate
    files = find_writer(config).files(config)
    return {
        "tools": hash_file(folder.bank / "tools.parquet"),
        "sources": hash_file(folder.bank / "sources.json"),
        "config": shape(config),
        "replies": hash_file(files[0]) if files else None,
        "prompts": prompt_hash(recipe.domain_name),
        "split": shape(recipe.split),
        "seed": recipe.seed,
        "toolbank": __version__,
    }


def _generate(recipe: Recipe, folder: RunFolder) -> Outcome:
    from toolbank.bank.split import draw_withheld, split_queries
    from toolbank.generate.loop import generate
    from toolbank.journal import Journal

    domain = recipe.domain_name
    tools = read_tools(folder.bank / "tools.parquet")
    with Journal(folder.journal) as journal:
        made = generate(
            tools, recipe.generate, domain=domain, seed=recipe.seed, journal=journal
        )
        calls = describe_calls(journal.usage(), recipe.generate)
    if made.waiting:
        return Outcome(made.message, (), complete=False, waiting=made.waiting)
    withheld = draw_withheld([tool.name for tool in tools], recipe.split, recipe.seed)
    split = partial(split_queries, made.queries, recipe.split, recipe.seed, withheld)
    splits = Counter(query.split for query in split())
    if not splits["train"]:
        raise InputError(
            f"split: of {len(made.queries)} queries none is left to train on. Hold back "
            "smaller shares, withhold fewer tools, or write more queries."
        )
    files = [
        folder.bank / f"{name}.parquet" for name in ("tools", "queries", "attempts")
    ]
    write_queries(files[1], split())
    write_attempts(files[2], made.attempts)
    info = folder.bank / "bank.json"
    write_json(
        info,
        {
            "layout": 1,
            "versions": {
                "toolbank": __version__,
                **{name: metadata.version(name) for name in _SHAPE_THE_BANK},
            },
            "name": recipe.name,
            "domain": domain,
            "seed": recipe.seed,
            "sources": read_json(folder.bank / "sources.json"),
            "generate": made.info,
            "counts": made.counts,
            "calls": calls,
            "ordered": True,
            **describe_splits(splits, withheld),
            "sha256": {path.name: sha256_file(path) for path in files},
        },
    )
    return Outcome(
        made.message,
        (*files[1:], info),
        made.complete,
        made.problems,
        ended_early=made.ended_early,
    )


def _judge_depends(recipe: Recipe, folder: RunFolder) -> dict[str, Any]:
    from toolbank.judge.model import TEMPLATE as JUDGE_TEMPLATE

    against = recipe.judge.against
    return {
        "bank": bank_hashes(folder),
        "config": shape(recipe.judge),
        "against": hash_file(against) if isinstance(against, Path) else against,
        "prompt": find_asset("prompts", JUDGE_TEMPLATE).sha256,
        "seed": recipe.seed,
        "toolbank": __version__,
    }


def _judge(recipe: Recipe, folder: RunFolder) -> Outcome:
    from toolbank.journal import Journal
    from toolbank.judge.judge import judge_bank

    with Journal(folder.journal) as journal:
        judged = judge_bank(
            Bank.load(folder.bank), recipe.judge, seed=recipe.seed, journal=journal
        )
        calls = describe_calls(journal.usage(), recipe.judge)
    write_json(folder.judge, {**judged.content, "calls": calls})
    return Outcome(
        judged.message,
        (folder.judge,),
        complete=not judged.content["calls_failed"],
        problems=judged.problems,
    )


def _refresh_calls(
    path: Path, config: EngineConfig, folder: RunFolder
) -> tuple[Path, ...]:
    """Write the calls of a done stage as the journal and the prices have them now."""
    from toolbank.journal import Journal

    info = read_json(path)
    if not folder.journal.is_file():
        return ()
    with Journal(folder.journal) as journal:
        calls = describe_calls(journal.usage(), config)
    if info.get("calls") == calls:
        return ()
    write_json(path, {**info, "calls": calls})
    return (path,)


def _report_depends(recipe: Recipe, folder: RunFolder) -> dict[str, Any]:
    return {
        "bank": bank_hashes(folder),
        "info": hash_file(folder.bank / "bank.json"),
        "judge": hash_file(folder.judge) if "judge" in recipe.stages else None,
        "metrics": hash_file(folder.metrics),
        "labels": hash_file(folder.labels),
        "models": model_hashes(recipe, folder),
        "recipe": recipe.model_dump(mode="json"),
        "toolbank": __version__,
    }


def _report(recipe: Recipe, folder: RunFolder) -> Outcome:
    from toolbank.report.report import write_report

    write_report(folder.path, recipe.report)
    return Outcome(str(folder.report), (folder.report,))
