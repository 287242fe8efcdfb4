"""The stages in order: what each depends on, and what it leaves in the run folder."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

import toolbank
from toolbank.assets import find_asset
from toolbank.bank import (
    Bank,
    Tool,
    read_tools,
    write_attempts,
    write_queries,
    write_tools,
)
from toolbank.errors import InputError
from toolbank.evaluation.config import EvaluateConfig
from toolbank.evaluation.sets import (
    EvaluationSet,
    describe_labels,
    make_set,
    split_sets,
)
from toolbank.files import read_json, sha256_file, write_json
from toolbank.folder import RunFolder, hash_tree, open_run, stage_key
from toolbank.llm.accounts import describe_calls
from toolbank.llm.config import TRANSPORT, EngineConfig
from toolbank.loaders.labelled import read_labelled
from toolbank.recipe import Recipe, is_run_folder, load_recipe
from toolbank.retrievers.config import RetrieverConfig
from toolbank.sources.config import SourceConfig

STAGES = ("sources", "generate", "judge", "retrievers", "evaluate", "report")

# Libraries whose versions may change a bank's content or its files' bytes.
_SHAPE_THE_BANK = ("numpydoc", "pyarrow")


@dataclass(frozen=True)
class Outcome:
    """What a stage says of itself when it ends, and the files that it left.

    One that is not complete is run again by the next run: some of its calls failed. `waiting`
    is not empty where it has to wait for something outside: what the user has to do, after
    which the next run goes on with it. `ended_early` says which budget is spent, and how to raise it.
    """

    message: str
    files: tuple[Path, ...]
    complete: bool = True
    problems: tuple[str, ...] = ()
    waiting: str = ""
    ended_early: str = ""


@dataclass(frozen=True)
class Stage:
    """One step of a run; `depends` gives, as JSON, all that its result follows from.

    `refresh` brings a done stage's accounts up to date with what its result doesn't follow from,
    such as prices, and gives the files that it changed.
    """

    name: str
    depends: Callable[[], Mapping[str, Any]]
    work: Callable[[], Outcome]
    refresh: Callable[[], tuple[Path, ...]] | None = None

    @property
    def kind(self) -> str:
        """The name without the part, such as "retrievers" of "retrievers/bm25"."""
        return self.name.partition("/")[0]


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
        *(
            stage(f"retrievers/{config.label}", _fit_depends, _fit, config)
            for config in recipe.retrievers
        ),
        stage("evaluate", _evaluate_depends, _evaluate),
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


def _sources_depends(recipe: Recipe, _: RunFolder) -> dict[str, Any]:
    from toolbank.sources.collect import source_versions

    return {
        "sources": [_source_settings(source) for source in recipe.sources],
        "versions": source_versions(recipe.sources),
        "toolbank": toolbank.__version__,
    }


def _source_settings(source: SourceConfig) -> dict[str, Any]:
    """Settings that say what is read; how gently a site is asked changes nothing of it."""
    settings = source.model_dump(mode="json")
    conduct = settings.pop("conduct", None)
    return {**settings, "page_mb": conduct["page_mb"]} if conduct else settings


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

    config = recipe.generate
    plays = config.replies if config.engine == "recorded" else None
    return {
        "tools": _sha256(folder.bank / "tools.parquet"),
        "sources": _sha256(folder.bank / "sources.json"),
        "config": _settings(config, "replies"),
        "replies": _sha256(plays) if plays else None,
        "prompts": prompt_hash(recipe.domain_name),
        "split": _settings(recipe.split),
        "seed": recipe.seed,
        "toolbank": toolbank.__version__,
    }


def _generate(recipe: Recipe, folder: RunFolder) -> Outcome:
    from toolbank.generate.loop import generate
    from toolbank.journal import Journal
    from toolbank.split import assign_splits, split_queries

    domain = recipe.domain_name
    tools = read_tools(folder.bank / "tools.parquet")
    with Journal(folder.journal) as journal:
        made = generate(
            tools, recipe.generate, domain=domain, seed=recipe.seed, journal=journal
        )
        calls = describe_calls(journal.usage(), recipe.generate)
    if made.waiting:
        return Outcome(made.message, (), complete=False, waiting=made.waiting)
    splits = Counter(assign_splits(len(made.queries), recipe.split, recipe.seed))
    if not splits["train"]:
        raise InputError(
            f"split: of {len(made.queries)} queries none is left to train on. Hold back "
            "smaller shares, or write more queries."
        )
    files = [
        folder.bank / f"{name}.parquet" for name in ("tools", "queries", "attempts")
    ]
    write_queries(files[1], split_queries(made.queries, recipe.split, recipe.seed))
    write_attempts(files[2], made.attempts)
    info = folder.bank / "bank.json"
    write_json(
        info,
        {
            "layout": 1,
            "versions": {
                "toolbank": toolbank.__version__,
                **{name: metadata.version(name) for name in _SHAPE_THE_BANK},
            },
            "name": recipe.name,
            "domain": domain,
            "seed": recipe.seed,
            "sources": read_json(folder.bank / "sources.json"),
            "generate": made.info,
            "counts": made.counts,
            "calls": calls,
            "splits": {name: splits[name] for name in ("train", "validation", "test")},
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
        "bank": _bank_hashes(folder),
        "config": _settings(recipe.judge, "against"),
        "against": _sha256(against) if isinstance(against, Path) else against,
        "prompt": find_asset("prompts", JUDGE_TEMPLATE).sha256,
        "seed": recipe.seed,
        "toolbank": toolbank.__version__,
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


def _fit_depends(
    config: RetrieverConfig, recipe: Recipe, folder: RunFolder
) -> dict[str, Any]:
    return {
        "bank": _bank_hashes(folder),
        "config": _settings(config),
        "encoder": _encoder_identity(config),
        "needs": {name: hash_tree(folder.models / name) for name in config.needs},
        "seed": recipe.seed,
        "toolbank": toolbank.__version__,
    }


def _encoder_identity(config: RetrieverConfig) -> str | None:
    from toolbank.encoders.places import encoder_identity

    encoder = getattr(config, "encoder", None)
    return encoder_identity(encoder) if encoder else None


def _fit(config: RetrieverConfig, recipe: Recipe, folder: RunFolder) -> Outcome:
    from toolbank.retrievers import create_retriever, load_retriever
    from toolbank.retrievers.protocol import FitContext

    key = stage_key(f"retrievers/{config.label}", _fit_depends(config, recipe, folder))
    checkpoints = folder.checkpoints / f"{config.label}-{key[:16]}"
    retriever = create_retriever(config)
    retriever.fit(
        Bank.load(folder.bank),
        FitContext(
            seed=recipe.seed,
            checkpoints=checkpoints,
            fitted={
                name: load_retriever(folder.models / name) for name in config.needs
            },
        ),
    )
    target = folder.models / config.label
    folder.models.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.models, prefix=".") as name:
        made = Path(name) / config.label
        retriever.save(made)
        shutil.rmtree(target, ignore_errors=True)
        made.rename(target)
    shutil.rmtree(checkpoints, ignore_errors=True)
    return Outcome(
        "fitted", tuple(path for path in target.rglob("*") if path.is_file())
    )


def _evaluate_depends(recipe: Recipe, folder: RunFolder) -> dict[str, Any]:
    return {
        "bank": _bank_hashes(folder),
        "models": _model_hashes(recipe, folder),
        "config": _settings(recipe.evaluate, "on"),
        "on": [[path.stem, _sha256(path)] for path in recipe.evaluate.on],
        "seed": recipe.seed,
        "toolbank": toolbank.__version__,
    }


def _evaluate(recipe: Recipe, folder: RunFolder) -> Outcome:
    bank = Bank.load(folder.bank)
    sets = [*split_sets(bank), *_file_sets(bank, recipe.evaluate.on)]
    names = [config.label for config in recipe.retrievers]
    write_json(folder.metrics, _measure(folder, names, sets, recipe))
    write_json(folder.labels, [describe_labels(evaluated) for evaluated in sets])
    told = ", ".join(
        f"{evaluated.name} ({len(evaluated.queries)})" for evaluated in sets
    )
    return Outcome(told, (folder.metrics, folder.labels))


def export_run(path: Path, form: str, out: Path) -> list[Path]:
    """Write the bank of a run in another format; gives what was written.

    Raises:
        InputError: no run there, or `out` is in a run's folder or holds something else.
    """
    from toolbank.loaders.export import export_bank

    folder = open_run(path)
    if any(map(is_run_folder, (out, *out.resolve().parents))):
        raise InputError(f"{out}: in the folder of a run. Give another --out.")
    return export_bank(Bank.load(folder.bank), form, out)


def evaluate_run(path: Path, on: Sequence[Path], out: Path | None) -> str:
    """Evaluate a finished run's retrievers on labelled files, or on its test split if none.

    Writes the records to `out` where it is given; gives the table and notes for people.

    Raises:
        InputError: the run is not finished, or a file is missing or has broken lines.
    """
    from toolbank.evaluation.table import format_notes, format_table

    folder = open_run(path)
    recipe = load_recipe(str(folder.recipe)).recipe
    names = [config.label for config in recipe.retrievers]
    for stage in make_stages(recipe, folder):
        key = (
            stage_key(stage.name, stage.depends()) if stage.kind == "retrievers" else ""
        )
        if stage.kind == "retrievers" and not folder.is_done(stage.name, key):
            raise InputError(
                f"{path}: {stage.name} is not fitted on this bank. First: toolbank run {path}"
            )
    try:
        EvaluateConfig(on=tuple(on))
    except ValidationError as error:
        told = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise InputError(f"--on {told}.") from error
    bank = Bank.load(folder.bank)
    sets = _file_sets(bank, on) if on else split_sets(bank)
    records = _measure(folder, names, sets, recipe)
    if out is not None:
        write_json(out, records)
    notes = format_notes([describe_labels(evaluated) for evaluated in sets])
    wrote = f"Wrote {len(records)} records to {out}" if out else ""
    return "\n".join(filter(None, (format_table(records), notes, wrote)))


def _file_sets(bank: Bank, paths: Sequence[Path]) -> list[EvaluationSet]:
    sets = []
    for path in paths:
        file = read_labelled(path)
        labels = [name for query in file.queries for name in query.tools]
        if not any(name in bank.index for name in labels):
            example = f", such as {labels[0]}" if labels else ""
            raise InputError(
                f"{path}: none of its {len(labels)} labels is a tool of this bank{example}. "
                f"The bank's names look like {bank.tools[0].name}."
            )
        sets.append(make_set(file.name, bank, file.queries, file.refusals))
    return sets


def _measure(
    folder: RunFolder,
    retrievers: Sequence[str],
    sets: Sequence[EvaluationSet],
    recipe: Recipe,
) -> list[dict[str, Any]]:
    from toolbank.evaluation.evaluate import evaluate_retriever
    from toolbank.retrievers import load_retriever

    return [
        record
        for name in retrievers
        for record in evaluate_retriever(
            load_retriever(folder.models / name), sets, recipe.evaluate, recipe.seed
        )
    ]


def _report_depends(recipe: Recipe, folder: RunFolder) -> dict[str, Any]:
    return {
        "bank": _bank_hashes(folder),
        "info": _sha256(folder.bank / "bank.json"),
        "judge": _sha256(folder.judge),
        "metrics": _sha256(folder.metrics),
        "labels": _sha256(folder.labels),
        "models": _model_hashes(recipe, folder),
        "recipe": _settings(recipe),
        "toolbank": toolbank.__version__,
    }


def _report(recipe: Recipe, folder: RunFolder) -> Outcome:
    from toolbank.report.report import write_report

    write_report(folder.path, recipe.report)
    return Outcome(str(folder.report), (folder.report,))


def _sha256(path: Path) -> str:
    if not path.is_file():
        raise InputError(f"{path}: not there. Run the stages before this one first.")
    return sha256_file(path)


def _bank_hashes(folder: RunFolder) -> dict[str, str]:
    return {
        name: _sha256(folder.bank / name)
        for name in ("tools.parquet", "queries.parquet")
    }


def _model_hashes(recipe: Recipe, folder: RunFolder) -> dict[str, dict[str, str]]:
    return {
        config.label: hash_tree(folder.models / config.label)
        for config in recipe.retrievers
    }


def _settings(config: BaseModel, *files: str) -> dict[str, Any]:
    """Settings that shape a result; `files` are keys whose files count by content."""
    return config.model_dump(mode="json", exclude={*TRANSPORT, *files})
