"""The stage that compares queries with others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolbank.bank.bank import Bank
from toolbank.config.assets import Asset, find_asset
from toolbank.config.base import shape
from toolbank.requests.judge.judge import judge_bank, keep_comparisons, sample_verdicts
from toolbank.requests.judge.judges import TEMPLATE, JudgeConfig
from toolbank.requests.judge.summary import find_files
from toolbank.run.candidate_sets import pair_attempts
from toolbank.run.stage import bank_hashes, hash_file
from toolbank.run.stages.asking import AskingStage
from toolbank.system.files import read_json, write_json
from toolbank.system.numbers import count
from toolbank.system.version import __version__

if TYPE_CHECKING:
    from toolbank.llm.journal import Journal
    from toolbank.llm.step import StepResult, StepSample
    from toolbank.run.forecast import Forecast
    from toolbank.run.outlook import Outlook


class JudgeStage(AskingStage):
    """Judges pairs of texts into judge.json, which keeps the comparisons made before."""

    kind = "judge"
    summary = "judge.json"
    needs = ("dataset", "generate")

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
            "seed": self.recipe.calls_seed,
            "toolbank": __version__,
        }

    def ask(self, journal: Journal) -> StepResult[dict[str, Any]]:
        """Have the pairs judged."""
        bank = Bank.load(self.folder.bank, settled=False)
        against, seed = self.config.against, self.recipe.calls_seed
        matches: dict[str, str] = {}
        if isinstance(against, Path):
            found = pair_attempts(self.folder.path, against)
            matches = found.match_requests()
        return judge_bank(
            bank, self.config, seed=seed, journal=journal, matches=matches
        )

    def title(self, outlook: Outlook, by: str) -> str:
        """How many pairs, by a model or a heuristic."""
        judge = by if self.engine else "a heuristic"
        return f"Judge: {count(self._most_pairs(outlook), 'pair')}, by {judge}"

    def sample(self, outlook: Outlook) -> StepSample:
        """Comparisons; those of another bank are of other pairs."""
        domain, pairs = self.recipe.domain_name, self._most_pairs(outlook)
        is_same = not outlook.bank_changes
        return sample_verdicts(self.config, domain, pairs, is_same=is_same)

    def describe_calls(self, outlook: Outlook, forecast: Forecast) -> str:  # noqa: ARG002
        """How many calls, and how many a pair."""
        criteria = len(self.config.criteria)
        return (
            f"at most {forecast.calls(most=True):,}: each pair by {criteria} "
            f"{'criterion' if criteria == 1 else 'criteria'}, in both orders"
        )

    def write(
        self, value: dict[str, Any], calls: Mapping[str, Any]
    ) -> tuple[tuple[Path, ...], Sequence[str]]:
        """The comparison, and those made before."""
        path = self.folder.judge
        earlier = read_json(path) if path.is_file() else {}
        bank = Bank.load(self.folder.bank, settled=False)
        content = keep_comparisons(value, earlier, bank)
        write_json(path, {**content, "calls": calls})
        return (path,), ()

    def files(self) -> tuple[Path, ...]:
        """The file of prices, and the texts that are held against."""
        return *super().files(), *self._others

    def assets(self) -> tuple[Asset, ...]:
        """The prompt."""
        return (find_asset("prompts", TEMPLATE),)

    @property
    def config(self) -> JudgeConfig:
        """The settings of the judge."""
        return self.recipe.judge

    def _most_pairs(self, outlook: Outlook) -> int:
        """No more pairs than there are queries, where that is known."""
        pairs = self.config.pairs
        if self.recipe.dataset is not None:
            return pairs
        return min(pairs, outlook.most_queries or pairs)

    @property
    def _others(self) -> tuple[Path, ...]:

        against = self.recipe.judge.against
        return find_files(against) if isinstance(against, Path) else ()
