"""What a run tells of how its bank was made and of how good it is, for a card."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolbank.config.explain import read_checked
from toolbank.evaluation.figures import Figure, read_figures
from toolbank.report.content import Judge
from toolbank.report.sections import Verification
from toolbank.requests.quality.measure import Quality

if TYPE_CHECKING:
    from toolbank.run.folder import RunFolder
    from toolbank.run.recipe import Recipe

_FITTED = "retrievers/"


@dataclass(frozen=True)
class Story:
    """What was left by the stages that are done; `stale` names those whose result is left out.

    `info` is bank.json.
    """

    name: str
    info: Mapping[str, Any]
    figures: tuple[Figure, ...] = ()
    judge: Judge | None = None
    verification: Verification | None = None
    quality: Quality | None = None
    stale: tuple[str, ...] = field(default=())

    @property
    def stale_models(self) -> frozenset[str]:
        """The labels of retrievers that were fitted on an earlier bank."""
        fitted = (name for name in self.stale if name.startswith(_FITTED))
        return frozenset(name.removeprefix(_FITTED) for name in fitted)

    @property
    def is_written(self) -> bool:
        """Whether the requests were written by the run, and are not those of a dataset."""
        return "generate" in self.info

    @property
    def engine(self) -> str:
        """Who wrote the requests: an engine's name."""
        return str(self._written.get("engine", ""))

    @property
    def model(self) -> str:
        """The model that wrote the requests; "" where none is named."""
        return str(self._written.get("model", ""))

    @property
    def sources(self) -> list[str]:
        """What the tools were read from."""
        found = self.info.get("sources")
        listed = found.get("sources") if isinstance(found, dict) else None
        named = [one.get("source") for one in listed or () if isinstance(one, dict)]
        return [str(name) for name in named if name]

    @property
    def _written(self) -> Mapping[str, Any]:
        made = self.info.get("generate")
        return made if isinstance(made, dict) else {}


def read_story(recipe: Recipe, run: RunFolder) -> Story:
    """Read what the stages of a run left, as far as it is of the bank that is there now.

    Raises:
        InputError: a file is missing or damaged.
    """
    from toolbank.run.stages import make_stages

    stages = {stage.name: stage for stage in make_stages(recipe, run)}
    stale = [
        name
        for name, stage in stages.items()
        if name.startswith(_FITTED)
        and any(run.is_left_by(path, [name]) for path in _files(run, name))
        and not stage.is_done
    ]

    def is_there(kind: str, path: Path) -> bool:
        if kind not in stages or not path.is_file():
            return False
        if not stages[kind].is_current:
            stale.append(kind)
            return False
        return True

    return Story(
        name=recipe.name,
        info=read_checked(run.bank / "bank.json", dict[str, Any]),
        figures=tuple(read_figures(run.metrics))
        if is_there("evaluate", run.metrics)
        else (),
        judge=read_checked(run.judge, Judge) if is_there("judge", run.judge) else None,
        verification=read_checked(run.verified, Verification)
        if is_there("verify", run.verified)
        else None,
        quality=read_checked(run.quality, Quality)
        if is_there("report", run.quality)
        else None,
        stale=tuple(stale),
    )


def _files(run: RunFolder, stage: str) -> Iterable[Path]:
    return (run.models / stage.removeprefix(_FITTED)).rglob("*")
