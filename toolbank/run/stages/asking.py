"""What the stages that ask a model have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from toolbank.run.stage import Outcome, Stage, refresh_calls

if TYPE_CHECKING:
    from toolbank.llm.config import EngineConfig
    from toolbank.llm.engines.kind import EngineKind
    from toolbank.llm.journal import Journal
    from toolbank.llm.step import StepResult
    from toolbank.system.consent import Grant


class AskingStage(Stage):
    """Asks an engine for all that the run's journal doesn't hold.

    `summary` is the JSON file, in the run folder, that has its calls.
    """

    asks_models = True
    summary: ClassVar[str]

    @property
    @abstractmethod
    def config(self) -> EngineConfig:
        """The settings of its engine."""

    @abstractmethod
    def ask(self, journal: Journal) -> StepResult[Any]:
        """Ask, and fold what came.

        Raises:
            ToolbankError: nothing can be made of it.
        """

    @abstractmethod
    def write(
        self, value: Any, calls: Mapping[str, Any]
    ) -> tuple[tuple[Path, ...], Sequence[str]]:
        """Write what was made, and what the calls came to: the files, and what is wrong with it."""

    @property
    def engine(self) -> EngineKind[EngineConfig] | None:
        """The kind of its engine; None where rules do it without one."""
        from toolbank.llm.engines import find_model

        return find_model(self.config)

    @property
    def keeps(self) -> str:
        """What the journal holds."""
        return "Every reply that came is kept." if self.engine else ""

    @property
    def steps(self) -> tuple[str, ...]:
        """Its calls."""
        return self.config.call_steps

    @property
    def engine_files(self) -> tuple[Path, ...]:
        """What the engine reads."""
        return self.engine.files(self.config) if self.engine else ()

    def work(self) -> Outcome:
        """Make what can be made of the replies."""
        from toolbank.llm.accounts import describe_calls
        from toolbank.llm.journal import Journal

        with Journal(self.folder.journal) as journal:
            result = self.ask(journal)
            calls = describe_calls(journal.usage(), self.config)
        if result.waiting:
            return Outcome(result.message, (), waiting=result.waiting)
        files, problems = self.write(result.value, calls)
        return Outcome(
            result.message,
            files,
            result.lacks,
            (*result.problems, *problems),
            ended_early=result.ended_early,
        )

    def files(self) -> tuple[Path, ...]:
        """The file of prices, and what the engine reads."""
        price = self.config.price
        return *((price,) if isinstance(price, Path) else ()), *self.engine_files

    def check(self) -> None:
        """Refuse an engine that can't be made."""
        if self.engine:
            self.engine.check(self.config)

    def sends(self) -> tuple[Grant, ...]:
        """The key of the engine, and where it is."""
        return tuple(self.engine.sends(self.config)) if self.engine else ()

    def prepare(self) -> None:
        """Refuse an engine whose key or package isn't here."""
        if self.engine:
            self.engine.check_access(self.config)

    @property
    def reads_assets(self) -> bool:
        """Whether a model reads the prompts."""
        return self.engine is not None and self.engine.asks_model

    def notes(self) -> list[str]:
        """Which prompts are the user's own, where a model reads them."""
        return super().notes() if self.reads_assets else []

    def refresh(self) -> tuple[Path, ...]:
        """The calls in its summary."""
        return refresh_calls(self.folder.path / self.summary, self.config, self.folder)
