"""The stage that writes the queries."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolbank.bank.files import write_attempts, write_queries
from toolbank.bank.split import format_splits, make_units, split_queries, thin_train
from toolbank.config.base import shape
from toolbank.encoders.location import encoder_identity
from toolbank.requests.write.bank_builder import count_by_prompt
from toolbank.requests.write.config import (
    GenerateConfig,
    describe_size_limits,
    fit_to_tools,
)
from toolbank.requests.write.prompts import prompt_assets, prompt_hash, prompt_notes
from toolbank.requests.write.write_step import (
    BankQueries,
    NothingAcceptedError,
    WriteStep,
    generate,
    most_attempts,
    most_queries,
)
from toolbank.run.advice import advise_before
from toolbank.run.catalogue import depends_on_catalogue, find_sets, read_catalogue
from toolbank.run.forecast import Forecast, History, format_paragraph
from toolbank.run.stage import (
    depends_on_copies,
    describe_left_out,
    drop_copies,
    hash_file,
    write_bank_info,
)
from toolbank.run.stages.asking import WritingStage
from toolbank.system.errors import InputError
from toolbank.system.files import read_json, write_json
from toolbank.system.numbers import about, count
from toolbank.system.terminal import print_message
from toolbank.system.version import __version__

if TYPE_CHECKING:
    from toolbank.bank.records import Query, Tool
    from toolbank.bank.split import Catalogue
    from toolbank.config.assets import Asset
    from toolbank.encoders.config import EncoderConfig
    from toolbank.llm.chat import Engine
    from toolbank.llm.journal import Journal
    from toolbank.llm.step import StepResult
    from toolbank.run.folder import RunFolder
    from toolbank.run.outlook import Outlook

# Libraries whose versions may change a bank's content or its files' bytes.
_LIBRARIES = ("numpydoc", "polars")
# Attempts a query where nothing is known, at worst; and the replies that are enough to know it by.
_WORST = 2.0
_ENOUGH = 20


# Keys that version 0.7.0 did not have, and the values that give what it gave.
_ADDED: Mapping[str, Any] = {
    "separate_alternatives": False,
    "weights": {},
    "candidate_sets": None,
    "distinct_sets": False,
}


class GenerateStage(WritingStage):
    """Has queries written for the tools, and draws their splits: the bank."""

    kind = "generate"
    summary = "bank/bank.json"
    needs = ("sources",)

    def depends(self) -> dict[str, Any]:
        """The tools, the settings that shape queries, and the prompts."""
        config = self.recipe.generate
        return {
            "tools": hash_file(self.folder.bank / "tools.parquet"),
            **depends_on_catalogue(self.folder),
            "sources": hash_file(self.folder.bank / "sources.json"),
            "config": {
                key: value
                for key, value in shape(config).items()
                if key not in _ADDED or value != _ADDED[key]
            },
            "encoders": [encoder_identity(one) for one in self.encoders],
            "files": [hash_file(path) for path in self._own_files],
            "domain": self.recipe.domain_name,
            "prompts": prompt_hash(self.recipe.domain_name, config),
            "split": self.recipe.split.shape(),
            **depends_on_copies(self.recipe),
            "seed": self.recipe.seed,
            **self.recipe.other_bank_seed,
            **self.recipe.other_language,
            "toolbank": __version__,
        }

    def ask(self, journal: Journal) -> StepResult[BankQueries]:
        """Write the queries."""
        recipe, folder = self.recipe, self.folder
        catalogue = read_catalogue(folder)
        tools = catalogue.tools
        # Engines without a number of their own are offered tools of the bank.
        has_own = self.engine is not None and self.engine.default_queries is None
        if not has_own and (fit := describe_size_limits(recipe.generate, tools)):
            print_message(fit)
        if most := most_queries(recipe.generate):
            for line in advise_before(recipe, len(tools), most):
                print_message(line)
        try:
            return generate(
                tools,
                self.config,
                domain=recipe.domain_name,
                seed=recipe.calls_seed,
                journal=journal,
                earlier=catalogue.earlier,
            )
        except NothingAcceptedError as error:
            # Those of an earlier bank stay with its queries.
            if error.attempts and not (folder.bank / "bank.json").is_file():
                write_attempts(folder.bank / "attempts.parquet", error.attempts)
            raise

    def make_step(
        self, catalogue: Catalogue, engine: Engine | None = None
    ) -> WriteStep:
        """The attempts over these tools."""
        recipe, tools = self.recipe, catalogue.tools
        domain, seed = recipe.domain_name, recipe.calls_seed
        return WriteStep(tools, self.config, domain, seed, catalogue.earlier, engine)

    def title(self, outlook: Outlook, by: str) -> str:
        """How many queries over how many tools."""
        most = outlook.most_queries
        queries = count(most, "query", "queries") if most else "all queries that it has"
        return f"Generation: {queries} over {count(len(outlook.given.tools), 'tool')}, by {by}"

    def plan_notes(self, outlook: Outlook) -> Iterator[str]:
        """What of so small a bank says nothing, what is offered, and what is said of the tools."""
        yield from super().plan_notes(outlook)
        tools = outlook.given.tools
        if most := outlook.most_queries:
            for line in advise_before(self.recipe, len(tools), most):
                yield from format_paragraph("size", line)
        if self.recipe.split.withhold_tools and outlook.most_queries:
            splits = Counter(query.split for query in outlook.bank.queries)
            said = f"about {format_splits(splits)} (split.withhold_tools)"
            yield from format_paragraph("splits", said)
        notes = [
            row for note in outlook.notes for row in format_paragraph("tools", note)
        ]
        if self.reads_assets:
            yield from (*_describe_offers(self.config, tools), *notes)
            return
        yield from notes
        if self.engine and self.engine.default_queries is not None:
            # The offers are those of any engine, and wrong settings are found here.
            self.sample(outlook)
            yield from _describe_offers(self.config, tools)

    def count_calls(
        self, total: int, history: History
    ) -> Sequence[tuple[float, float]]:
        """As many writes as it takes for all queries, and the polishes of their drafts.

        Where nobody knows how many attempts become queries, all do at best, and every second one
        at worst.
        """
        accepted, polished = self._shares(history)
        limit = most_attempts(self.config) or math.inf
        fewest = min(total / (accepted or 1.0), limit)
        most = min(total * _WORST, limit) if accepted is None else fewest
        return [(fewest, most), (polished * fewest, polished * most)]

    def describe_calls(self, outlook: Outlook, forecast: Forecast) -> str:  # noqa: ARG002
        """How many calls it takes, and what that supposes."""
        fewest, most = forecast.calls(most=False), forecast.calls(most=True)
        write, polish = forecast.steps
        accepted, _ = self._shares(forecast.history)
        share = ""
        if accepted is not None:
            share = (
                f", if {100 * accepted:.0f} % of the attempts are accepted as up to now"
            )
        if not most:
            return (
                f"none, or a few{share}: the journal has as many replies as are needed"
            )
        if accepted is None:
            worst = f"{most:,} if only every second one is"
            if self.in_rounds:
                worst = f"at most {most:,}, because a round sends more than are missing"
            return (
                f"{fewest:,} if every attempt is accepted, {worst}. "
                "An attempt is a write and, where its draft passes the checks, a polish."
            )
        return (
            f"about {about(most)}: {about(write.most)} writes and {about(polish.most)} polishes"
            f"{share}"
        )

    def write(
        self, value: BankQueries, calls: Mapping[str, Any]
    ) -> tuple[tuple[Path, ...], Sequence[str]]:
        """The bank: queries with their splits, and what became of attempts."""
        recipe, folder = self.recipe, self.folder
        if sets := self.config.candidate_sets:
            folder.keep_copy(self.kind, sets)
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
        copies = thinned = 0
        if recipe.profile.copies.drop:
            kept, copies = drop_copies(recipe, list(split()))
            split = partial(iter, kept)
        if recipe.split.train_share < 1:
            kept, thinned = thin_train(list(split()), recipe.split, recipe.seed)
            split = partial(iter, kept)
        splits = Counter(query.split for query in split())
        removed = _count_removed(value.queries, gone)
        splits[None] -= removed.get("queries_left_out", 0) + copies + thinned
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
        made = {"generate": value.info, "counts": value.counts}
        info = write_bank_info(
            recipe,
            folder,
            [folder.bank / "tools.parquet", queries, attempts],
            libraries=_LIBRARIES,
            origin={
                "sources": read_json(folder.bank / "sources.json"),
                **made,
                "prompts": count_by_prompt([*_read_earlier(folder), made]),
                "calls": calls,
                "ordered": True,
                **({"removed": removed} if removed else {}),
                **describe_left_out(copies=copies, train_share=thinned),
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
        from toolbank.requests.quality.texts import (
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

    @property
    def encoders(self) -> tuple[EncoderConfig, ...]:
        """Those that compare queries."""
        return self.recipe.generate.encoders

    def assets(self) -> tuple[Asset, ...]:
        """The prompts and the examples in them."""
        return tuple(prompt_assets(self.recipe.domain_name, self.recipe.generate))

    def files(self) -> tuple[Path, ...]:
        """What the engine reads, and the file of candidate sets."""
        return tuple(dict.fromkeys((*super().files(), *self._own_files)))

    @property
    def _own_files(self) -> tuple[Path, ...]:
        sets = self.config.candidate_sets
        return *self.engine_files, *((sets,) if sets else ())

    def notes(self) -> list[str]:
        """Which prompts are the user's own, and whether there are examples of the domain."""
        if not self.reads_assets:
            return []
        notes = prompt_notes(self.recipe.domain_name, self.recipe.generate)
        return list(dict.fromkeys([*super().notes(), *notes]))

    def _shares(self, history: History) -> tuple[float | None, float]:
        """The shares of attempts that are accepted, None where it is not known, and polished.

        By the bank of this model, or else by how many of the drafts in the journal were polished.
        """
        writes, polishes = history.held("write"), history.held("polish")
        polished = min(1.0, polishes / writes) if writes else 1.0
        accepted = self._accepted_in_bank()
        if accepted is None and (writes < _ENOUGH or not polishes):
            return None, 1.0
        accepted = accepted or polished
        return accepted, max(polished, accepted)

    def _accepted_in_bank(self) -> float | None:
        path = self.folder.bank / "bank.json"
        info = read_json(path) if path.is_file() else {}
        try:
            if info["generate"]["model"] != self.config.model:
                return None
            counts = info["counts"]
            return float(counts["accepted"] / counts["attempts"]) or None
        except (LookupError, TypeError, ArithmeticError):
            return None

    @property
    def config(self) -> GenerateConfig:
        """The settings of the queries, with the copy of candidate sets that are gone."""
        return find_sets(self.recipe, self.folder).generate


def _read_earlier(folder: RunFolder) -> Iterator[dict[str, Any]]:
    """Read bank.json of the banks that `--replace` has moved, the oldest first."""
    numbers = (folder.path / "replaced").glob("[0-9]*")
    for replaced in sorted(numbers, key=lambda path: (len(path.name), path.name)):
        path = replaced / folder.bank.relative_to(folder.path) / "bank.json"
        if path.is_file():
            yield read_json(path)


def _describe_offers(config: GenerateConfig, tools: Sequence[Tool]) -> Iterator[str]:
    """How many tools are asked for, and what is smaller than set since the bank is."""
    if fit := describe_size_limits(config, tools):
        yield from format_paragraph("offered", fit.removeprefix("offered: "))
    if shares := fit_to_tools(config, tools).tools_per_query:
        total = sum(shares.values())
        parts = [f"{n} in {100 * shares[n] / total:.3g} %" for n in sorted(shares)]
        said = f"exactly {', '.join(parts)} of the queries"
        yield from format_paragraph("tools", said)


def _count_removed(queries: Collection[Query], gone: frozenset[str]) -> dict[str, Any]:
    """Which tools queries need that the sources no longer have, and how many do; {} if none."""
    needed = [names for one in queries if (names := gone.intersection(one.tools))]
    if not needed:
        return {}
    tools = sorted(frozenset[str]().union(*needed))
    return {"tools": tools, "queries_left_out": len(needed)}
