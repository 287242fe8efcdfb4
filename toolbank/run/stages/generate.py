"""The stage that writes the queries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolbank.config.base import shape
from toolbank.run.stage import Outcome, Stage, hash_file, refresh_calls, write_bank_info
from toolbank.system.errors import InputError
from toolbank.system.files import read_json, write_json
from toolbank.system.numbers import count
from toolbank.system.terminal import print_message
from toolbank.system.version import __version__

if TYPE_CHECKING:
    from toolbank.bank.records import Query, Tool
    from toolbank.config.assets import Asset
    from toolbank.llm.engines.kind import EngineKind
    from toolbank.system.consent import Grant

# Libraries whose versions may change a bank's content or its files' bytes.
_LIBRARIES = ("numpydoc", "polars")


class GenerateStage(Stage):
    """Has queries written for the tools, and draws their splits: the bank."""

    kind = "generate"
    asks_models = True
    needs = ("sources",)

    @property
    def keeps(self) -> str:
        """What the journal holds."""
        return "Every reply that came is kept."

    @property
    def steps(self) -> tuple[str, ...]:
        """Its calls."""
        return self.recipe.generate.call_steps

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
            "files": [hash_file(path) for path in self._writer.files(config)],
            "domain": self.recipe.domain_name,
            "prompts": prompt_hash(self.recipe.domain_name, config),
            "split": shape(self.recipe.split),
            "seed": self.recipe.seed,
            "toolbank": __version__,
        }

    def work(self) -> Outcome:
        """Write the queries, as far as the journal doesn't hold them."""
        from toolbank.bank.files import write_attempts, write_queries
        from toolbank.bank.split import make_units, split_queries
        from toolbank.llm.accounts import describe_calls
        from toolbank.llm.journal import Journal
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
        has_own = self._writer.default_queries is None
        if not has_own and (fit := describe_fit(recipe.generate, tools)):
            print_message(fit)
        if most := most_queries(recipe.generate):
            for line in advise_before(recipe, len(tools), most):
                print_message(line)
        with Journal(folder.journal) as journal:
            try:
                made = generate(
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
            calls = describe_calls(journal.usage(), recipe.generate)
        if made.waiting:
            return Outcome(made.message, (), waiting=made.waiting)
        withheld = catalogue.draw_withheld(recipe.split, recipe.seed)
        gone = catalogue.find_gone()
        split = partial(
            split_queries,
            made.value.queries,
            recipe.split,
            recipe.seed,
            withheld,
            gone,
            make_units(recipe.split.by, catalogue.tools),
        )
        splits = Counter(query.split for query in split())
        removed = _count_removed(made.value.queries, gone)
        splits[None] -= removed.get("queries_left_out", 0)
        if not splits["train"]:
            raise InputError(
                f"split: of {count(len(made.value.queries), 'query', 'queries')} none is left to train "
                "on. Hold back smaller shares, withhold fewer tools, split by what fewer queries have "
                "in common (split.by), or write more queries."
            )
        queries, attempts = (
            folder.bank / f"{name}.parquet" for name in ("queries", "attempts")
        )
        write_queries(queries, split())
        write_attempts(attempts, made.value.attempts)
        info = write_bank_info(
            recipe,
            folder,
            [folder.bank / "tools.parquet", queries, attempts],
            libraries=_LIBRARIES,
            origin={
                "sources": read_json(folder.bank / "sources.json"),
                "generate": made.value.info,
                "counts": made.value.counts,
                "calls": calls,
                "ordered": True,
                **({"removed": removed} if removed else {}),
            },
            splits=splits,
            withheld=withheld,
        )
        explanations, problems = self._check_explanations(made.value.queries, tools)
        return Outcome(
            made.message,
            (queries, attempts, info, *explanations),
            made.lacks,
            (*made.problems, *problems),
            ended_early=made.ended_early,
        )

    def files(self) -> tuple[Path, ...]:
        """The file of prices, and what the engine reads."""
        config = self.recipe.generate
        prices = (config.price,) if isinstance(config.price, Path) else ()
        return *prices, *self._writer.files(config)

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

        self._writer.check(self.recipe.generate)
        for encoder in self.recipe.generate.encoders:
            demand_model(locate(encoder))

    def sends(self) -> tuple[Grant, ...]:
        """The key of the engine, and where it is."""
        return tuple(self._writer.sends(self.recipe.generate))

    def prepare(self) -> None:
        """Refuse an engine whose key or package isn't here, and workers without Ray."""
        from toolbank.encoders.workers import check_workers

        self._writer.check_access(self.recipe.generate)
        for encoder in self.recipe.generate.encoders:
            check_workers(encoder)

    def assets(self) -> tuple[Asset, ...]:
        """The prompts and the examples in them."""
        from toolbank.requests.write.prompts import prompt_assets

        return tuple(prompt_assets(self.recipe.domain_name, self.recipe.generate))

    @property
    def reads_assets(self) -> bool:
        """Whether a model reads the prompts."""
        return self._writer.asks_model

    def notes(self) -> list[str]:
        """Which prompts are the user's own, and whether there are examples of the domain."""
        from toolbank.requests.write.prompts import prompt_notes

        if not self._writer.asks_model:
            return []
        notes = prompt_notes(self.recipe.domain_name, self.recipe.generate)
        return list(dict.fromkeys([*super().notes(), *notes]))

    def refresh(self) -> tuple[Path, ...]:
        """The calls in bank.json."""
        path = self.folder.bank / "bank.json"
        return refresh_calls(path, self.recipe.generate, self.folder)

    @property
    def _writer(self) -> EngineKind[Any]:
        from toolbank.requests.write.writers import find_writer

        return find_writer(self.recipe.generate)


def _count_removed(queries: Collection[Query], gone: frozenset[str]) -> dict[str, Any]:
    """Which tools queries need that the sources no longer have, and how many do; {} if none."""
    needed = [names for one in queries if (names := gone.intersection(one.tools))]
    if not needed:
        return {}
    tools = sorted(frozenset[str]().union(*needed))
    return {"tools": tools, "queries_left_out": len(needed)}
