"""The stage that generates queries that no tool fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolbank.bank.bank import MISSING
from toolbank.bank.files import write_queries
from toolbank.config.assets import Asset, find_asset
from toolbank.config.base import shape
from toolbank.requests.missing.groups import group_tools
from toolbank.requests.missing.settle import split_missing
from toolbank.requests.missing.write import (
    TEMPLATE,
    MissingQueries,
    MissingStep,
    write_missing,
)
from toolbank.run.catalogue import depends_on_catalogue, read_catalogue
from toolbank.run.stage import hash_file
from toolbank.run.stages.asking import WritingStage
from toolbank.system.files import sha256_file, write_json
from toolbank.system.numbers import count
from toolbank.system.version import __version__

if TYPE_CHECKING:
    from toolbank.bank.split import Catalogue
    from toolbank.llm.chat import Engine
    from toolbank.llm.journal import Journal
    from toolbank.llm.step import StepResult
    from toolbank.requests.missing import MissingConfig
    from toolbank.run.forecast import Forecast
    from toolbank.run.outlook import Outlook


class MissingStage(WritingStage):
    """Generates queries near the tools into bank/missing.parquet; what became of each, missing.json."""

    kind = "missing"
    needs = ("sources", "dataset")
    summary = "bank/missing.json"
    leaves = (f"bank/{MISSING}", "bank/missing.json")

    def depends(self) -> dict[str, Any]:
        """The tools, the settings that shape the queries, the prompt, and the split."""
        return {
            "tools": hash_file(self.folder.bank / "tools.parquet"),
            **depends_on_catalogue(self.folder),
            "config": shape(self.config),
            "files": [hash_file(path) for path in self.engine_files],
            "domain": self.recipe.domain_name,
            "prompts": [asset.sha256 for asset in self.assets()],
            "split": self.recipe.split.shape(),
            "seed": self.recipe.seed,
            **self.recipe.other_bank_seed,
            **self.recipe.other_language,
            "toolbank": __version__,
        }

    def ask(self, journal: Journal) -> StepResult[MissingQueries]:
        """Generate the queries."""
        recipe = self.recipe
        return write_missing(
            read_catalogue(self.folder).tools,
            self.config,
            domain=recipe.domain_name,
            seed=recipe.calls_seed,
            journal=journal,
        )

    def make_step(
        self, catalogue: Catalogue, engine: Engine | None = None
    ) -> MissingStep:
        """One call for each group of these tools."""
        recipe = self.recipe
        domain, seed = recipe.domain_name, recipe.calls_seed
        return MissingStep(catalogue.tools, self.config, domain, seed, engine)

    def title(self, outlook: Outlook, by: str) -> str:
        """How many queries near how many groups."""
        config, tools = self.config, outlook.catalogue.tools
        near = count(len(group_tools(tools)[: config.groups]), "group")
        return f"Queries that no tool fits: at most {config.per_group} near each of {near} of tools, by {by}"

    def describe_calls(self, outlook: Outlook, forecast: Forecast) -> str:  # noqa: ARG002
        """How many calls, and for how many tools one is."""
        return f"{forecast.calls(most=True):,}, one per group of tools"

    def write(
        self, value: MissingQueries, calls: Mapping[str, Any]
    ) -> tuple[tuple[Path, ...], Sequence[str]]:
        """Write the queries with their splits, and what became of each."""
        recipe = self.recipe
        path, info = self.folder.bank / MISSING, self.folder.path / self.summary
        queries = split_missing(value.queries, recipe.split, recipe.seed)
        write_queries(path, queries)
        sha256 = {path.name: sha256_file(path)}
        write_json(info, {**value.content, "calls": calls, "sha256": sha256})
        problems = [] if recipe.verify else [f"not graded: {NOT_GRADED}"]
        return (path, info), problems

    def assets(self) -> tuple[Asset, ...]:
        """The prompt."""
        return (find_asset("prompts", TEMPLATE),)

    @property
    def config(self) -> MissingConfig:
        """The settings of the queries."""
        if self.recipe.missing is None:
            raise ValueError("the recipe has no section `missing`")
        return self.recipe.missing


NOT_GRADED = (
    "whether no tool fits these queries is the writer's word alone. Add `verify` with a model to "
    "the recipe"
)
