"""The stage that writes the queries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolbank.config.base import shape
from toolbank.run.stage import hash_file, write_bank_info
from toolbank.run.stages.asking import AskingStage
from toolbank.system.errors import InputError
from toolbank.system.files import read_json, write_json
from toolbank.system.numbers import count
from toolbank.system.terminal import print_message
from toolbank.system.version import __version__

if TYPE_CHECKING:
    from toolbank.bank.records import Query, Tool
    from toolbank.config.assets import Asset
    from toolbank.llm.journal import Journal
    from toolbank.llm.step import StepResult
    from toolbank.requests.write.config import GenerateConfig
    from toolbank.requests.write.generate import BankQueries

# Libraries whose versions may change a bank's content or its files' bytes.
_LIBRARIES = ("numpydoc", "polars")


class GenerateStage(AskingStage):
    """Has queries written for the tools, and draws their splits: the bank."""

    kind = "generate"
    summary = "bank/bank.json"
    needs = ("sources",)

    def depends(self) -> dict[str, Any]:
        """The tools, the settings that shape queries, and the prompts."""
        from toolbank.encoders.location import encoder_identity
        from toolbank.requests.write.prompts import prompt_hash
        from toolbank.run.catalogue import depends_on_catalogue

        config = self.recipe.generate
        return {
            "tools": hash_file(self.folder.bank / "tools.parquet"),
            **depends_on_catalogue(self.folder),
            "sources": hash_file(self.folder.bank / "sources.json"),
            "config": shape(config),
            "encoders": [encoder_identity(one) for one in config.encoders],
            "files": [hash_file(path) for path in self.engine_files],
            "domain": self.recipe.domain_name,
            "prompts": prompt_hash(self.recipe.domain_name, config),
            "split": shape(self.recipe.split),
            "seed": self.recipe.seed,
            "toolbank": __version__,
        }

    def ask(self, journal: Journal) -> StepResult[BankQueries]:
        """Write the queries."""
        from toolbank.bank.files import write_attempts
        from toolbank.requests.write.config import describe_fit
        from toolbank.requests.write.generate import (
            NothingAcceptedError,
            generate,
            most_queries,
        )
        from toolbank.run.advice import advise_before
        from toolbank.run.catalogue import read_catalogue

        recipe, folder = self.recipe, self.folder
        catalogue = read_catalogue(folder)
        tools = catalogue.tools
        # Engines without a number of their own are offered tools of the bank.
        has_own = self.engine is not None and self.engine.default_queries is None
        if not has_own and (fit := describe_fit(recipe.generate, tools)):
            print_message(fit)
        if most := most_queries(recipe.generate):
            for line in advise_before(recipe, len(tools), most):
                print_message(line)
        try:
            return generate(
                tools,
                recipe.generate,
                domain=recipe.domain_name,
                seed=recipe.seed,
                journal=journal,
                earlier=catalogue.earlier,
            )
        except NothingAcceptedError as error:
            # Those of an earlier bank stay with its queries.
            if error.attempts and not (folder.bank / "bank.json").is_file():
                write_attempts(folder.bank / "attempts.parquet", error.attempts)
            raise

    def write(
        self, value: BankQueries, calls: Mapping[str, Any]
    ) -> tuple[tuple[Path, ...], Sequence[str]]:
        """The bank: queries with their splits, and what became of attempts."""
        from toolbank.bank.files import write_attempts, write_queries
        from toolbank.bank.split import make_units, split_queries
        from toolbank.run.catalogue import read_catalogue

        recipe, folder = self.recipe, self.folder
        catalogue = read_catalogue(folder)
        withheld = catalogue.draw_withheld(recipe.split, recipe.seed)
        gone = catalogue.find_gone()
        split = partial(
            split_queries,
            value.queries,
            recipe.split,
            recipe.seed,
            withheld,
            gone,
            make_units(recipe.split.by, catalogue.tools),
        )
        splits = Counter(query.split for query in split())
        removed = _count_removed(value.queries, gone)
        splits[None] -= removed.get("queries_left_out", 0)
        if not splits["train"]:
            raise InputError(
                f"split: of {count(len(value.queries), 'query', 'queries')} none is left to train "
                "on. Hold back smaller shares, withhold fewer tools, split by what fewer queries have "
                "in common (split.by), or write more queries."
            )
        queries, attempts = (
            folder.bank / f"{name}.parquet" for name in ("queries", "attempts")
        )
        write_queries(queries, split())
        write_attempts(attempts, value.attempts)
        info = write_bank_info(
            recipe,
            folder,
            [folder.bank / "tools.parquet", queries, attempts],
            libraries=_LIBRARIES,
            origin={
                "sources": read_json(folder.bank / "sources.json"),
                "generate": value.info,
                "counts": value.counts,
                "calls": calls,
                "ordered": True,
                **({"removed": removed} if removed else {}),
            },
            splits=splits,
            withheld=withheld,
        )
        explanations, problems = self._check_explanations(
            value.queries, catalogue.tools
        )
        return (queries, attempts, info, *explanations), problems

    def _check_explanations(
        self, queries: Collection[Query], tools: Sequence[Tool]
    ) -> tuple[tuple[Path, ...], list[str]]:
        """The file of the check, and what it tells; nothing where none is asked for."""
        from toolbank.requests.write.explanations import (
            check_explanations,
            describe_explanations,
        )

        path = self.folder.bank / "explanations.json"
        config = self.recipe.generate.explanations
        if config is None:
            path.unlink(missing_ok=True)
            return (), []
        found = check_explanations(queries, tools, config)
        write_json(path, found)
        return (path,), describe_explanations(found)

    def check(self) -> None:
        """Refuse an engine that can't be made, and an encoder that can't be had."""
        from toolbank.encoders.location import locate
        from toolbank.encoders.model import demand_model

        super().check()
        for encoder in self.recipe.generate.encoders:
            demand_model(locate(encoder))

    def prepare(self) -> None:
        """Refuse an engine whose key or package isn't here, and workers without Ray."""
        from toolbank.encoders.workers import check_workers

        super().prepare()
        for encoder in self.recipe.generate.encoders:
            check_workers(encoder)

    def assets(self) -> tuple[Asset, ...]:
        """The prompts and the examples in them."""
        from toolbank.requests.write.prompts import prompt_assets

        return tuple(prompt_assets(self.recipe.domain_name, self.recipe.generate))

    def notes(self) -> list[str]:
        """Which prompts are the user's own, and whether there are examples of the domain."""
        from toolbank.requests.write.prompts import prompt_notes

        if not self.reads_assets:
            return []
        notes = prompt_notes(self.recipe.domain_name, self.recipe.generate)
        return list(dict.fromkeys([*super().notes(), *notes]))

    @property
    def config(self) -> GenerateConfig:
        """The settings of the queries."""
        return self.recipe.generate


def _count_removed(queries: Collection[Query], gone: frozenset[str]) -> dict[str, Any]:
    """Which tools queries need that the sources no longer have, and how many do; {} if none."""
    needed = [names for one in queries if (names := gone.intersection(one.tools))]
    if not needed:
        return {}
    tools = sorted(frozenset[str]().union(*needed))
    return {"tools": tools, "queries_left_out": len(needed)}
