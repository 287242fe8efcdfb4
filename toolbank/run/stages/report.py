"""The stage that writes the page for people."""

from __future__ import annotations

from typing import Any

from toolbank.bank.bank import PROFILE
from toolbank.run.choice import choose_retriever
from toolbank.run.folder import hash_tree
from toolbank.run.stage import (
    Outcome,
    Stage,
    bank_hashes,
    has_grades,
    hash_file,
    missing_hashes,
    model_hashes,
)
from toolbank.system.version import __version__


class ReportStage(Stage):
    """Writes report.html of all that the other stages left, and quality.json."""

    kind = "report"
    needs = ("missing", "judge", "profile", "evaluate")

    def depends(self) -> dict[str, Any]:
        """All that the page shows."""
        recipe, folder = self.recipe, self.folder
        is_judged = "judge" not in recipe.unused_keys
        return {
            "bank": bank_hashes(folder, recipe),
            **missing_hashes(folder, recipe),
            "info": hash_file(folder.bank / "bank.json"),
            **({"asks": hash_file(folder.bank / "asks.json")} if recipe.asks else {}),
            "judge": hash_file(folder.judge) if is_judged else None,
            **(
                {"verified": hash_file(folder.verified)}
                if has_grades(recipe, folder)
                else {}
            ),
            "metrics": hash_file(folder.metrics),
            "labels": hash_file(folder.labels),
            "profile": [hash_file(folder.bank / PROFILE), hash_file(folder.copies)],
            "calibration": hash_file(folder.calibration),
            **{
                path.stem: hash_file(path)
                for path in (
                    folder.validation,
                    folder.warnings,
                    folder.searches,
                    folder.refusals,
                    folder.bank / "missing.json",
                )
                if path.is_file()
            },
            "hits": hash_tree(folder.hits),
            "models": model_hashes(recipe, folder),
            # The run's prompts are its own, wherever the recipe has them. The planner comes later.
            "recipe": recipe.model_copy(update={"planner": None}).model_dump(
                mode="json", exclude={"prompts", *recipe.unused_keys}
            ),
            "toolbank": __version__,
        }

    def work(self) -> Outcome:
        """Write the page."""
        from toolbank.report.report import write_report

        folder, retrievers = self.folder, self.recipe.retrievers
        chosen = choose_retriever(folder, retrievers).label if retrievers else ""
        write_report(folder.path, self.recipe.report, chosen)
        return Outcome(str(folder.report), (folder.report, folder.quality))
