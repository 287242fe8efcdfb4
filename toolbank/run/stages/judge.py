"""The stage that compares queries with others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolbank.config.assets import Asset, find_asset
from toolbank.config.base import shape
from toolbank.run.stage import Outcome, Stage, bank_hashes, hash_file, refresh_calls
from toolbank.system.files import read_json, write_json
from toolbank.system.numbers import count
from toolbank.system.version import __version__

if TYPE_CHECKING:
    from toolbank.system.consent import Grant


class JudgeStage(Stage):
    """Judges pairs of texts into judge.json, which keeps the comparisons made before."""

    kind = "judge"
    asks_models = True
    needs = ("dataset", "generate")

    @property
    def keeps(self) -> str:
        """What the journal holds."""
        return "Every verdict that came is kept."

    @property
    def steps(self) -> tuple[str, ...]:
        """Its calls."""
        return self.recipe.judge.call_steps

    def depends(self) -> dict[str, Any]:
        """The bank, what it is held against, and the settings that shape verdicts."""
        against = self.recipe.judge.against
        return {
            "bank": bank_hashes(self.folder),
            "config": shape(self.recipe.judge),
            "against": against
            if against == "draft"
            else [hash_file(path) for path in self._others],
            "prompt": self.assets()[0].sha256,
            "seed": self.recipe.seed,
            "toolbank": __version__,
        }

    def work(self) -> Outcome:
        """Have the pairs judged, as far as the journal doesn't hold it."""
        from toolbank.bank.bank import Bank
        from toolbank.llm.accounts import describe_calls
        from toolbank.llm.journal import Journal
        from toolbank.requests.judge.judge import judge_bank, keep_comparisons

        config, path = self.recipe.judge, self.folder.judge
        bank = Bank.load(self.folder.bank)
        with Journal(self.folder.journal) as journal:
            judged = judge_bank(bank, config, seed=self.recipe.seed, journal=journal)
            calls = describe_calls(journal.usage(), config)
        if judged.waiting:
            return Outcome(judged.message, (), waiting=judged.waiting)
        gone = judged.value["calls_failed"]
        earlier = read_json(path) if path.is_file() else {}
        content = keep_comparisons(judged.value, earlier, bank)
        write_json(path, {**content, "calls": calls})
        return Outcome(
            judged.message,
            (path,),
            lacks=f"{count(gone, 'verdict')} missing" if gone else "",
            problems=judged.problems,
        )

    def files(self) -> tuple[Path, ...]:
        """The file of prices, and the texts that are held against."""
        price = self.recipe.judge.price
        return *((price,) if isinstance(price, Path) else ()), *self._others

    def check(self) -> None:
        """Refuse an engine that can't be made."""
        from toolbank.requests.judge.judges import find_judge

        if judge := find_judge(self.recipe.judge):
            judge.check(self.recipe.judge)

    def sends(self) -> tuple[Grant, ...]:
        """The key of the engine, and where it is."""
        from toolbank.requests.judge.judges import find_judge

        judge = find_judge(self.recipe.judge)
        return tuple(judge.sends(self.recipe.judge)) if judge else ()

    def prepare(self) -> None:
        """Refuse an engine whose key or package isn't here."""
        from toolbank.requests.judge.judges import find_judge

        if judge := find_judge(self.recipe.judge):
            judge.check_access(self.recipe.judge)

    def assets(self) -> tuple[Asset, ...]:
        """The prompt."""
        from toolbank.requests.judge.judges import TEMPLATE

        return (find_asset("prompts", TEMPLATE),)

    @property
    def reads_assets(self) -> bool:
        """Whether a model judges."""
        from toolbank.requests.judge.judges import find_judge

        return find_judge(self.recipe.judge) is not None

    def notes(self) -> list[str]:
        """Whether the prompt is the user's own, where a model reads it."""
        return super().notes() if self.reads_assets else []

    def refresh(self) -> tuple[Path, ...]:
        """The calls in judge.json."""
        return refresh_calls(self.folder.judge, self.recipe.judge, self.folder)

    @property
    def _others(self) -> tuple[Path, ...]:
        from toolbank.requests.judge.summary import find_files

        against = self.recipe.judge.against
        return find_files(against) if isinstance(against, Path) else ()
