"""The stage that has the labels of the bank verified."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolbank.config.shape import shape
from toolbank.run.calls import refresh_calls
from toolbank.run.stage import Outcome, Stage, bank_hashes, hash_file
from toolbank.system.files import sha256_file, write_json
from toolbank.system.version import __version__

if TYPE_CHECKING:
    from toolbank.config.assets import Asset
    from toolbank.llm.engines.kind import EngineKind
    from toolbank.system.trust import Grant
    from toolbank.verify.config import VerifyConfig


class VerifyStage(Stage):
    """Grades the candidates of every request, into bank/labels.parquet; verify.json sums up."""

    kind = "verify"
    needs = ("dataset", "generate", "asks")
    leaves = ("bank/labels.parquet", "verify.json")

    @property
    def keeps(self) -> str:
        """What the journal holds."""
        return "Every reply that came is kept." if self._kind else ""

    @property
    def steps(self) -> tuple[str, ...]:
        """Its calls."""
        return self._config.call_steps

    def depends(self) -> dict[str, Any]:
        """Tools, requests and asks, the settings that shape grades, and the prompt."""
        return {
            "bank": bank_hashes(self.folder, self.recipe),
            "config": shape(self._config),
            "files": [hash_file(path) for path in self._played],
            "domain": self.recipe.domain_name,
            "prompts": [asset.sha256 for asset in self.assets()],
            "seed": self.recipe.seed,
            "toolbank": __version__,
        }

    def work(self) -> Outcome:
        """Have the candidates graded, as far as the journal doesn't hold it."""
        from dataclasses import replace

        from toolbank.bank.bank import Bank
        from toolbank.bank.labels import write_labels
        from toolbank.journal import Journal
        from toolbank.llm.accounts import describe_calls
        from toolbank.verify.verify import FINDINGS, verify_bank

        folder = self.folder
        bank = replace(Bank.load(folder.bank), labels=())
        with Journal(folder.journal) as journal:
            found = verify_bank(
                bank,
                self._config,
                folder=folder.verify,
                tools_id=sha256_file(folder.bank / "tools.parquet"),
                domain=self.recipe.domain_name,
                seed=self.recipe.seed,
                journal=journal,
            )
            calls = describe_calls(journal.usage(), self._config)
        if found.waiting:
            return Outcome(found.message, (), waiting=found.waiting)
        labels = folder.bank / "labels.parquet"
        write_labels(labels, found.labels)
        write_json(folder.verified, {**found.content, "calls": calls})
        return Outcome(
            found.message,
            # The candidates stay as the journal does, whatever becomes of the rest.
            (labels, folder.verified, folder.verify / FINDINGS),
            lacks=found.lacks,
            problems=found.problems,
            ended_early=found.ended_early,
        )

    def files(self) -> tuple[Path, ...]:
        """The file of prices, and what the engine reads."""
        price = self._config.price
        return *((price,) if isinstance(price, Path) else ()), *self._played

    def check(self) -> None:
        """Refuse an engine that can't be made."""
        if self._kind:
            self._kind.check(self._config)

    def sends(self) -> tuple[Grant, ...]:
        """The key of the engine, and where it is."""
        return tuple(self._kind.sends(self._config)) if self._kind else ()

    def prepare(self) -> None:
        """Refuse an engine whose key or package isn't here; get the encoder."""
        from toolbank.encoders.locate import locate
        from toolbank.encoders.model import find_model
        from toolbank.retrievers.tool2vec.config import Tool2VecConfig

        if self._kind:
            self._kind.check_access(self._config)
        for encoder in Tool2VecConfig().encoders:
            find_model(locate(encoder))

    def assets(self) -> tuple[Asset, ...]:
        """The prompt, where a model reads it."""
        from toolbank.verify.prompt import verify_assets

        return verify_assets() if self._kind and self._kind.asks_model else ()

    def refresh(self) -> tuple[Path, ...]:
        """The calls in verify.json."""
        return refresh_calls(self.folder.verified, self._config, self.folder)

    @property
    def _config(self) -> VerifyConfig:
        if self.recipe.verify is None:
            raise ValueError("the recipe has no verify")
        return self.recipe.verify

    @property
    def _kind(self) -> EngineKind[VerifyConfig] | None:
        from toolbank.verify.engine import find_verifier

        return find_verifier(self._config)

    @property
    def _played(self) -> tuple[Path, ...]:
        return self._kind.files(self._config) if self._kind else ()
