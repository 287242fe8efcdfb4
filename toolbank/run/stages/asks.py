"""The stage that has requests for each tool by itself written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolbank.config.base import shape
from toolbank.run.stage import Outcome, Stage, hash_file, refresh_calls
from toolbank.system.files import sha256_file, write_json
from toolbank.system.version import __version__

if TYPE_CHECKING:
    from toolbank.config.assets import Asset
    from toolbank.llm.engines.kind import EngineKind
    from toolbank.requests.asks.config import AsksConfig
    from toolbank.system.consent import Grant


class AsksStage(Stage):
    """Has asks written for the tools, into bank/asks.parquet; what became of each, asks.json."""

    kind = "asks"
    asks_models = True
    needs = ("sources", "dataset")
    leaves = ("bank/asks.parquet", "bank/asks.json")

    @property
    def keeps(self) -> str:
        """What the journal holds."""
        return "Every reply that came is kept."

    @property
    def steps(self) -> tuple[str, ...]:
        """Its calls."""
        return self._config.call_steps

    def depends(self) -> dict[str, Any]:
        """The tools, those that are withheld, the settings that shape asks, and the prompt."""
        from toolbank.run.catalogue import depends_on_catalogue

        return {
            "tools": hash_file(self.folder.bank / "tools.parquet"),
            **depends_on_catalogue(self.folder),
            "config": shape(self._config),
            "files": [hash_file(path) for path in self._writer.files(self._config)],
            "domain": self.recipe.domain_name,
            "prompts": [asset.sha256 for asset in self._prompts],
            "split": shape(self.recipe.split),
            "seed": self.recipe.seed,
            "toolbank": __version__,
        }

    def work(self) -> Outcome:
        """Have the asks written, as far as the journal doesn't hold them."""
        from toolbank.bank.files import write_asks
        from toolbank.llm.accounts import describe_calls
        from toolbank.llm.journal import Journal
        from toolbank.requests.asks.write import ask_for_tools
        from toolbank.run.catalogue import read_catalogue

        recipe, bank = self.recipe, self.folder.bank
        catalogue = read_catalogue(self.folder)
        with Journal(self.folder.journal) as journal:
            written = ask_for_tools(
                catalogue.tools,
                self._config,
                domain=recipe.domain_name,
                seed=recipe.seed,
                journal=journal,
                withheld=catalogue.draw_withheld(recipe.split, recipe.seed),
                earlier=catalogue.earlier,
            )
            calls = describe_calls(journal.usage(), self._config)
        if written.waiting:
            return Outcome(written.message, (), waiting=written.waiting)
        asks, info = bank / "asks.parquet", bank / "asks.json"
        write_asks(asks, written.value.asks)
        sha256 = {asks.name: sha256_file(asks)}
        write_json(info, {**written.value.content, "calls": calls, "sha256": sha256})
        return Outcome(
            written.message,
            (asks, info),
            lacks=written.lacks,
            problems=written.problems,
            ended_early=written.ended_early,
        )

    def files(self) -> tuple[Path, ...]:
        """The file of prices, and what the engine reads."""
        price = self._config.price
        prices = (price,) if isinstance(price, Path) else ()
        return *prices, *self._writer.files(self._config)

    def check(self) -> None:
        """Refuse an engine that can't be made."""
        self._writer.check(self._config)

    def sends(self) -> tuple[Grant, ...]:
        """The key of the engine, and where it is."""
        return tuple(self._writer.sends(self._config))

    def prepare(self) -> None:
        """Refuse an engine whose key or package isn't here."""
        self._writer.check_access(self._config)

    def assets(self) -> tuple[Asset, ...]:
        """The prompt."""
        return self._prompts

    @property
    def reads_assets(self) -> bool:
        """Whether a model reads the prompts."""
        return self._writer.asks_model

    def notes(self) -> list[str]:
        """Whether the prompt is the user's own, where a model reads it."""
        return super().notes() if self._writer.asks_model else []

    def refresh(self) -> tuple[Path, ...]:
        """The calls in asks.json."""
        path = self.folder.bank / "asks.json"
        return refresh_calls(path, self._config, self.folder)

    @property
    def _config(self) -> AsksConfig:
        if self.recipe.asks is None:
            raise ValueError("the recipe has no asks")
        return self.recipe.asks

    @property
    def _prompts(self) -> tuple[Asset, ...]:
        from toolbank.requests.asks.prompts import ask_assets

        return ask_assets()

    @property
    def _writer(self) -> EngineKind[AsksConfig]:
        from toolbank.requests.asks.writers import find_ask_writer

        return find_ask_writer(self._config)
