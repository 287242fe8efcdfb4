"""What the stages that ask a model have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from toolbank.llm.accounts import describe_calls
from toolbank.llm.engines import find_engine, find_model
from toolbank.llm.engines.batch.folder import Folder
from toolbank.llm.journal import Journal
from toolbank.requests.write.language import LANGUAGES
from toolbank.run.forecast import (
    Forecast,
    History,
    describe_forecast,
    forecast_calls,
    format_paragraph,
    read_history,
)
from toolbank.run.stage import Outcome, Stage, refresh_calls
from toolbank.system.extras import require_library

if TYPE_CHECKING:
    from toolbank.bank.split import Catalogue
    from toolbank.llm.chat import Engine
    from toolbank.llm.config import EngineConfig
    from toolbank.llm.engines.kind import EngineKind
    from toolbank.llm.step import Step, StepResult, StepSample
    from toolbank.run.outlook import Outlook


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

    @abstractmethod
    def title(self, outlook: Outlook, by: str) -> str:
        """What is asked, and by whom: a model as its engine describes it, or rules."""

    @abstractmethod
    def sample(self, outlook: Outlook) -> StepSample | None:
        """Some of its calls; None where nobody knows how many there will be."""

    @abstractmethod
    def describe_calls(self, outlook: Outlook, forecast: Forecast) -> str:
        """How many calls it takes, and what one of them is."""

    @property
    def engine(self) -> EngineKind[EngineConfig] | None:
        """The kind of its engine; None where rules do it without one."""
        return find_model(self.config)

    @property
    def engines(self) -> tuple[EngineConfig, ...]:
        """Its engine, unless rules replace one."""
        return (self.config,) if self.engine else ()

    @property
    def in_rounds(self) -> bool:
        """Whether its engine replies in rounds."""
        return self.engine is not None and self.engine.in_rounds

    def send_only(self) -> Self:
        """Make the stage that sends a round and does not wait for the replies."""
        if self.engine is None:
            return self
        options = self.engine.send_only(self.config)
        config = self.config.model_copy(update={"options": options})
        recipe = self.recipe.model_copy(update={self.config.section: config})
        return replace(self, recipe=recipe)

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
        with Journal(self.folder.journal) as journal:
            result = self.ask(journal)
            calls = describe_calls(journal.usage(), self.config)
        if result.waiting and not self.is_usable(result):
            return Outcome(result.message, (), waiting=result.waiting)
        files, problems = self.write(result.value, calls)
        return Outcome(
            result.message,
            files,
            result.lacks,
            (*result.problems, *problems),
            waiting=result.waiting,
            ended_early=result.ended_early,
        )

    def is_usable(self, result: StepResult[Any]) -> bool:  # noqa: ARG002
        """Whether a result that waits for further replies is written as it is."""
        return False

    def plan(self, outlook: Outlook) -> Iterator[str]:
        """What is asked of whom, in how many calls, and their tokens, cost and time."""
        kind, config = self.engine, self.config
        if kind is None or not kind.asks_model:
            yield f"{self.title(outlook, config.engine)}. No model is called."
            yield from self.plan_notes(outlook)
            return
        yield self.title(outlook, kind.describe(config))
        yield from self.plan_notes(outlook)
        if forecast := self.forecast(outlook):
            calls = self.describe_calls(outlook, forecast)
            yield from format_paragraph("calls", calls)
            yield from describe_forecast(forecast, config)

    def find_pending_file(self) -> Path | None:
        """Find a file of a batch that has no replies yet."""
        path = self.folder.path / "batch"
        if not path.is_dir() or not any(find_engine(one).fill for one in self.engines):
            return None
        batch = Folder(path, "")
        for _ in batch.read():
            # That finds the answered files.
            pass
        sent = {one.file for tries in batch.sent.values() for one in tries[-1:]}
        for name in sorted(sent - batch.answered):
            if any(f"-{step}-" in name for step in self.steps):
                return path / name
        return None

    def plan_notes(self, outlook: Outlook) -> Iterator[str]:  # noqa: ARG002
        """What a plan says besides of what is asked, in labelled paragraphs."""
        return iter(())

    def forecast(self, outlook: Outlook) -> Forecast | None:
        """The calls that the journal doesn't hold.

        None where no model is asked, or nobody knows how many there will be.

        Raises:
            InputError: the settings ask for what can't be, or a prompt can't be used.
            ToolbankError: the journal is damaged.
        """
        if not self.reads_assets or (sample := self.sample(outlook)) is None:
            return None
        journal, seed = self.folder.journal, self.recipe.calls_seed
        history = read_history(journal, self.config, seed, sample)
        return forecast_calls(sample, history, self.count_calls(sample.total, history))

    def count_calls(
        self,
        total: int,
        history: History,  # noqa: ARG002
    ) -> Sequence[tuple[float, float]]:
        """The fewest and the most calls of each kind in all attempts, in the order of the sample."""
        return [(total, total)]

    def files(self) -> tuple[Path, ...]:
        """The file of prices, and what the engine reads."""
        price = self.config.price
        return *((price,) if isinstance(price, Path) else ()), *self.engine_files

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


class WritingStage(AskingStage):
    """Asks an engine to write texts about tools; its step needs the tools and no bank."""

    def check(self) -> None:
        """Refuse a language that cannot be checked on this machine."""
        super().check()
        if self.recipe.other_language:
            require_library("lingua", "language")

    def plan_notes(self, outlook: Outlook) -> Iterator[str]:  # noqa: ARG002
        """The language, if it is not English."""
        for code in self.recipe.other_language.values():
            yield from format_paragraph("language", f"{LANGUAGES[code]} ({code})")

    @abstractmethod
    def make_step(
        self, catalogue: Catalogue, engine: Engine | None = None
    ) -> Step[Any, Any]:
        """The step over these tools.

        Raises:
            InputError: the bank is too small, or the prompt can't be used.
        """

    def sample(self, outlook: Outlook) -> StepSample:
        """Those of the step."""
        return self.make_step(outlook.catalogue).sample_calls()
