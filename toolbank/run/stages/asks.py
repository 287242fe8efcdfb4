"""The stage that has requests for each tool by itself written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolbank.bank.files import read_queries, write_asks
from toolbank.bank.records import group_siblings
from toolbank.config.assets import Asset, find_asset
from toolbank.config.base import shape
from toolbank.requests.asks.write import TEMPLATE, AskSet, AskStep, ask_for_tools
from toolbank.run.catalogue import depends_on_catalogue, read_catalogue
from toolbank.run.outlook import Outlook, find_asked
from toolbank.run.stage import depends_on_copies, hash_file
from toolbank.run.stages.asking import WritingStage
from toolbank.system.files import sha256_file, write_json
from toolbank.system.numbers import count
from toolbank.system.version import __version__

if TYPE_CHECKING:
    from toolbank.bank.split import Catalogue
    from toolbank.llm.chat import Engine
    from toolbank.llm.journal import Journal
    from toolbank.llm.step import StepResult
    from toolbank.requests.asks import AsksConfig
    from toolbank.run.forecast import Forecast


class AsksStage(WritingStage):
    """Has asks written for the tools, into bank/asks.parquet; what became of each, asks.json."""

    kind = "asks"
    summary = "bank/asks.json"
    leaves = ("bank/asks.parquet", "bank/asks.json")

    @property
    def needs(self) -> tuple[str, ...]:
        """The tools; and the requests, if copies of them are dropped."""
        drops = self.recipe.profile.copies.drop
        return ("sources", "dataset", *(["generate"] if drops else []))

    def depends(self) -> dict[str, Any]:
        """The tools, those that are withheld, the settings that shape asks, and the prompt."""
        return {
            "tools": hash_file(self.folder.bank / "tools.parquet"),
            **depends_on_catalogue(self.folder),
            "config": shape(self.config),
            "files": [hash_file(path) for path in self.engine_files],
            "domain": self.recipe.domain_name,
            "prompts": [asset.sha256 for asset in self.assets()],
            "split": self.recipe.split.shape(),
            **depends_on_copies(self.recipe, self.folder.bank / "queries.parquet"),
            "seed": self.recipe.seed,
            **self.recipe.other_bank_seed,
            **self.recipe.other_language,
            "toolbank": __version__,
        }

    def ask(self, journal: Journal) -> StepResult[AskSet]:
        """Have the asks written."""
        recipe, catalogue = self.recipe, read_catalogue(self.folder)
        return ask_for_tools(
            catalogue.tools,
            self.config,
            domain=recipe.domain_name,
            seed=recipe.calls_seed,
            journal=journal,
            withheld=catalogue.draw_withheld(recipe.split, recipe.seed),
            earlier=catalogue.earlier,
        )

    def make_step(self, catalogue: Catalogue, engine: Engine | None = None) -> AskStep:
        """One call for each group of siblings among these tools."""
        recipe = self.recipe
        return AskStep(
            catalogue.tools,
            self.config,
            recipe.domain_name,
            recipe.calls_seed,
            catalogue.draw_withheld(recipe.split, recipe.seed),
            catalogue.earlier,
            engine,
        )

    def title(self, outlook: Outlook, by: str) -> str:
        """How many asks for how many tools; rules do not write all."""
        asked = find_asked(self.recipe, outlook.catalogue)
        most = "" if self.reads_assets else "at most "
        tools = count(len(asked), "tool")
        return f"Asks: {most}{self.config.per_tool} for each of {tools}, by {by}"

    def describe_calls(self, outlook: Outlook, forecast: Forecast) -> str:
        """How many calls, and for how many tools one is."""
        asked = find_asked(self.recipe, outlook.catalogue)
        groups = len(group_siblings(asked))
        calls = f"{forecast.calls(most=True):,}, one a tool"
        if groups < len(asked):
            calls += f"; siblings on several classes share one, so that {groups:,} do for all"
        return calls

    def write(
        self, value: AskSet, calls: Mapping[str, Any]
    ) -> tuple[tuple[Path, ...], Sequence[str]]:
        """The asks, and what became of each."""
        asks, info = self.folder.bank / "asks.parquet", self.folder.path / self.summary
        kept, problems = list(value.asks), list[str]()
        if (limits := self.recipe.profile.copies).drop:
            from toolbank.requests.profile.copies import find_dropped

            queries = read_queries(self.folder.bank / "queries.parquet")
            texts, encoder = [ask.ask for ask in kept], self.recipe.plain_encoder
            dropped = {*find_dropped(texts, queries, limits, encoder)}
            kept = [ask for row, ask in enumerate(kept) if row not in dropped]
            problems.append(f"copies, not used: {count(len(dropped), 'ask')}")
        write_asks(asks, kept)
        sha256 = {asks.name: sha256_file(asks)}
        write_json(info, {**value.content, "calls": calls, "sha256": sha256})
        return (asks, info), problems

    def assets(self) -> tuple[Asset, ...]:
        """The prompt."""
        return (find_asset("prompts", TEMPLATE),)

    @property
    def config(self) -> AsksConfig:
        """The settings of the asks."""
        if self.recipe.asks is None:
            raise ValueError("the recipe has no asks")
        return self.recipe.asks
