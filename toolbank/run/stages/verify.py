"""The stage that verifies the labels of the bank."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from toolbank.bank.bank import (
    FITTED,
    MISSING,
    Bank,
    group_labels,
    read_labels,
    write_labels,
)
from toolbank.bank.files import read_column, read_tools, write_queries
from toolbank.bank.split import make_units
from toolbank.config.assets import Asset, find_asset
from toolbank.config.base import shape
from toolbank.encoders.location import locate
from toolbank.encoders.model import find_model
from toolbank.llm.engines import find_model as find_writer
from toolbank.llm.templates import find_schema
from toolbank.requests.missing.settle import SettledMissing, settle_missing
from toolbank.requests.verify import FINDINGS, OTHERS, TEMPLATE, VerifyConfig
from toolbank.retrievers.settings import Tool2VecConfig
from toolbank.run.stage import (
    Stage,
    bank_hashes,
    has_grades,
    hash_file,
    missing_hashes,
)
from toolbank.run.stages.asking import AskingStage
from toolbank.run.version_0_7 import read_verified
from toolbank.system.files import read_json, sha256_file, write_json
from toolbank.system.numbers import count, span
from toolbank.system.version import __version__

if TYPE_CHECKING:
    from toolbank.bank.bank import Label
    from toolbank.llm.config import EngineConfig
    from toolbank.llm.journal import Journal
    from toolbank.llm.step import StepResult, StepSample
    from toolbank.requests.verify.verify import LabelVerification
    from toolbank.retrievers.kind import RetrieverConfig
    from toolbank.run.folder import RunFolder
    from toolbank.run.forecast import Forecast, History
    from toolbank.run.outlook import Outlook
    from toolbank.run.recipe import Recipe


# Earlier versions had no such keys; where they are not set, earlier results stay.
_NEW_KEYS = ("second_call", "graders", "sample", "holes")


class VerifyStage(AskingStage):
    """Grades requests, and merges all grades into bank/labels.parquet; verify.json sums up.

    Every grade stays in verify/grades.parquet. A recipe without `verify` has the stage where grades
    are stored: they are merged, and no new ones are given.
    """

    kind = "verify"
    needs = ("dataset", "generate", "asks", "missing")
    summary = "verify.json"
    leaves = ("bank/labels.parquet", f"bank/{FITTED}", "verify.json")

    @classmethod
    def of(cls, recipe: Recipe, folder: RunFolder) -> list[Self]:
        """One, if the recipe verifies or grades are stored."""
        return [cls(recipe, folder)] if has_grades(recipe, folder) else []

    @property
    def steps(self) -> tuple[str, ...]:
        """Its calls."""
        return super().steps if self.recipe.verify else ()

    def depends(self) -> dict[str, Any]:
        """Tools, requests and asks, the settings that shape grades, and the prompt."""
        config = shape(self.config) if self.recipe.verify else {}
        by = config.pop("grader", "")
        for key in _NEW_KEYS:
            if not config.get(key):
                config.pop(key, None)
        own = [one for one in self._pooled if one.model_fields_set - {"type"}]
        config |= {"pooled": [*map(shape, own)]} if own else {}
        given, path = self.folder.dataset_labels, self._grades_file
        return {
            "bank": bank_hashes(self.folder, self.recipe),
            **missing_hashes(self.folder, self.recipe),
            "config": config,
            "files": [hash_file(path) for path in self.engine_files],
            **({"by": [by, path.name]} if path else {}),
            **({"labels": hash_file(given)} if given.is_file() else {}),
            "domain": self.recipe.domain_name,
            "prompts": [asset.sha256 for asset in self.assets()],
            "seed": self.recipe.calls_seed,
            "toolbank": __version__,
        }

    def ask(self, journal: Journal) -> StepResult[LabelVerification]:
        """Get grades, and merge all."""
        # A plan and the other stages go without the retrievers that this loads.
        from toolbank.requests.verify.verify import verify_bank

        folder = self.folder
        return verify_bank(
            replace(
                Bank.load(folder.bank, settled=False),
                labels=read_labels(folder.dataset_labels),
            ),
            self.config if self.recipe.verify else None,
            folder=folder.verify,
            tools_id=sha256_file(folder.bank / "tools.parquet"),
            domain=self.recipe.domain_name,
            seed=self.recipe.calls_seed,
            journal=journal,
            earlier=read_verified(folder),
            retrievers=self.recipe.retrievers,
        )

    def is_usable(self, result: StepResult[Any]) -> bool:
        """Labels are written from the replies that have come."""
        labels: Sequence[Label] = result.value.labels
        return any(label.kind in ("model", "person") for label in labels)

    def plan(self, outlook: Outlook) -> Iterator[str]:
        """What each grader is asked; nothing where stored grades are merged."""
        if self.recipe.verify is None:
            return
        graders = self.recipe.verify.by_grader()
        if len(graders) == 1:
            yield from super().plan(outlook)
            return
        for number, grader in enumerate(graders):
            # Only the first one does the hole check.
            own = {"graders": (), **({"holes": 0} if number else {})}
            one = grader.model_copy(update=own)
            recipe = self.recipe.model_copy(update={"verify": one})
            yield from replace(self, recipe=recipe).plan(outlook)

    def title(self, outlook: Outlook, by: str) -> str:
        """Whose labels, as far as a model grades them."""
        if not self.reads_assets:
            return f"Verification: by {by}"
        if (queries := self._most_graded(outlook)) is None:
            return f"Verification: one call a query, by {by}"
        of = count(queries, "query", "queries")
        if self.config.is_third:
            return f"Verification: those of {of} on which two graders disagree, by {by}"
        return f"Verification: the labels of {of}, by {by}"

    def _most_graded(self, outlook: Outlook) -> int | None:
        """How many queries are graded at most; None where that is not known."""
        queries, size = outlook.most_queries, self.config.sample
        queries = None if queries is None else queries + outlook.most_missing
        return queries if queries is None or size is None else min(queries, size)

    def sample(self, outlook: Outlook) -> StepSample | None:
        """Grades of drafts."""
        from toolbank.requests.verify.grade_step import sample_grades

        if (queries := self._most_graded(outlook)) is None:
            return None
        recipe, tools = self.recipe, outlook.given.tools
        domain, seed = recipe.domain_name, recipe.calls_seed
        return sample_grades(tools, self.config, domain, seed, queries)

    def count_calls(
        self, total: int, history: History
    ) -> Sequence[tuple[float, float]]:
        """One a query, and as many second ones as up to now; or else between none and all.

        The hole check makes none to `holes` further ones, and a third grader is asked none to all.
        """
        config = self.config
        fewest = 0 if config.is_third else total
        first, second = (history.usage.get(step) for step in VerifyConfig.call_steps)
        low, high = 0.0, 1.0 if config.second_call else 0.0
        if config.second_call and first and first.replies:
            low = high = (second.replies if second else 0) / first.replies
        most = total * high + min(config.holes, total)
        has_second = config.second_call or config.holes
        return [(fewest, total), *([(fewest * low, most)] if has_second else [])]

    def describe_calls(self, outlook: Outlook, forecast: Forecast) -> str:  # noqa: ARG002
        """How many calls, and how much is read in one."""
        config = self.config
        first, *second = (span(f"{n.fewest:,}", f"{n.most:,}") for n in forecast.steps)
        said = (
            f"{first}: one a query, with up to {config.candidates} tools in its prompt"
        )
        what = [
            f"a second call, with up to {config.second_call} further tools: those that the model "
            "names freely, and neighbors of tools that it needs"
        ] * bool(config.second_call)
        if config.holes:
            queries = count(config.holes, "test query", "test queries")
            what.append(f"the hole check of up to {queries}")
        return (
            f"{said}; and {second[0]} in {', and in '.join(what)}" if second else said
        )

    def write(
        self, value: LabelVerification, calls: Mapping[str, Any]
    ) -> tuple[tuple[Path, ...], Sequence[str]]:
        """The labels, and what they follow from."""
        folder, path = self.folder, self._grades_file
        if path:
            folder.keep_copy(self.kind, path)
        labels, fitted = folder.bank / "labels.parquet", folder.bank / FITTED
        write_labels(labels, value.labels)
        content, problems = dict(value.content), list[str]()
        files = [labels, folder.verified, folder.verify / FINDINGS]
        fitted.unlink(missing_ok=True)
        if settled := self._settle_missing(value):
            content["missing"] = settled.describe()
            problems.append(str(settled))
            write_queries(fitted, settled.fitted)
            files.append(fitted)
        write_json(folder.verified, {**content, "calls": calls})
        # Candidates and grades stay as the journal does, whatever becomes of the rest.
        return tuple(files), problems

    def _settle_missing(self, value: LabelVerification) -> SettledMissing | None:
        """Settle the missing-tool queries by their labels; None without any."""
        bank, split = Bank.load(self.folder.bank, settled=False), self.recipe.split
        if not bank.missing:
            return None
        return settle_missing(
            bank.missing,
            group_labels(value.labels),
            bank.queries,
            (bank.info.get("withheld") or {}).get("tools", ()),
            make_units(split.by, bank.tools),
        )

    def check(self) -> None:
        """Refuse an engine that can't be made, and a file of grades that doesn't fit the bank."""
        from toolbank.requests.engines import read_grades_file

        super().check()
        path = self._grades_file
        if path and self._is_bank_done():
            tools = read_tools(self.folder.bank / "tools.parquet")
            paths = (self.folder.bank / name for name in ("queries.parquet", MISSING))
            ids = (read_column(one, "id") for one in paths if one.is_file())
            read_grades_file(path, tools, frozenset(chain.from_iterable(ids)))

    def prepare(self) -> None:
        """Refuse an engine whose key or package isn't here; get the encoder."""
        if self.recipe.verify is None:
            return
        super().prepare()
        for one in (Tool2VecConfig(), *self._pooled):
            for encoder in one.encoders:
                find_model(locate(encoder))

    def assets(self) -> tuple[Asset, ...]:
        """The prompt, where a model reads it."""
        return (find_asset("prompts", TEMPLATE),) if self.reads_assets else ()

    def refresh(self) -> tuple[Path, ...]:
        """The calls in verify.json."""
        return super().refresh() if self.recipe.verify else ()

    @property
    def engines(self) -> tuple[EngineConfig, ...]:
        """Those of all graders, unless rules replace them."""
        return self.config.panel if self.engine else ()

    def files(self) -> tuple[Path, ...]:
        """The files of prices, and what the engine reads."""
        prices = [one.price for one in self.config.panel if isinstance(one.price, Path)]
        return *dict.fromkeys(prices), *self.engine_files

    @property
    def config(self) -> VerifyConfig:
        """That of the first grader, with the copy of a file of grades in place of one that is gone.

        A run with the prompt of version 0.7.0 keeps that version's default, and one call a query.
        """
        config = (self.recipe.verify or VerifyConfig()).by_grader()[0]
        if self._has_earlier_prompt(config):
            earlier = {"candidates": 20, "second_call": 0}
            if "candidates" in config.model_fields_set:
                del earlier["candidates"]
            config = config.model_copy(update=earlier)
        if config.replies is None:
            return config
        replies = self.folder.find_copy(self.kind, config.replies)
        return config.model_copy(update={"replies": replies})

    @staticmethod
    def _has_earlier_prompt(config: VerifyConfig) -> bool:
        """Whether the prompt does not ask which tools are missing."""
        kind = find_writer(config)
        if kind is None or not kind.asks_model:
            return False
        schema = read_json(find_schema(TEMPLATE).path)
        return OTHERS not in schema.get("properties", ())

    @property
    def _pooled(self) -> list[RetrieverConfig]:
        """The retrievers of the hole check, if there is one."""
        if not (self.recipe.verify and self.recipe.verify.holes):
            return []
        from toolbank.requests.verify.holes import choose_retrievers

        return choose_retrievers(self.recipe.retrievers)

    @property
    def _grades_file(self) -> Path | None:
        engine = self.engine
        return self.config.replies if engine and engine.plays_back else None

    def _is_bank_done(self) -> bool:
        from toolbank.run.stages.asks import AsksStage
        from toolbank.run.stages.dataset import DatasetStage
        from toolbank.run.stages.generate import GenerateStage
        from toolbank.run.stages.missing import MissingStage

        kinds: tuple[type[Stage], ...] = (
            DatasetStage,
            GenerateStage,
            AsksStage,
            MissingStage,
        )
        return all(
            stage.is_done
            for kind in kinds
            for stage in kind.of(self.recipe, self.folder)
        )
