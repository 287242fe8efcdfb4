"""Describe a kind of engine, and make one for each version of the tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from inspect import iscoroutinefunction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from toolbank.bank.catalogue import CatalogueVersion, find_version
from toolbank.llm.chat import ChatReply, ChatRequest, Engine, Offer, Offers
from toolbank.llm.config import DEFAULT_TIMEOUT_S, find_grants
from toolbank.system.consent import require_consent
from toolbank.system.errors import InputError, ToolbankError
from toolbank.system.extras import telling_extras
from toolbank.system.secrets import hide

if TYPE_CHECKING:
    from toolbank.bank.records import Tool
    from toolbank.llm.accounts import CallCounts
    from toolbank.llm.chat import EngineError
    from toolbank.llm.config import EngineConfig
    from toolbank.llm.journal import Journal
    from toolbank.system.consent import Grant


class EngineByVersion:
    """Each attempt is offered and answered by the engine of the version that it was begun under.

    Its identity is that of the first, so that what the journal has stays good: no two versions
    deal the same attempt. What it lacks is what the newest one does.
    """

    def __init__(
        self, engines: Sequence[Engine], earlier: Sequence[CatalogueVersion]
    ) -> None:
        self._engines = engines
        self._earlier = earlier
        newest = engines[-1]
        self.name, self.model = newest.name, newest.model
        self.identity = engines[0].identity
        self.missing: dict[str, int] = getattr(newest, "missing", {})
        self.unused: dict[str, int] = getattr(newest, "unused", {})

    @property
    def offers(self) -> Offers | None:
        """The attempts that the engines bring, if they do."""
        return None if self._engines[-1].offers is None else self

    def offer(self, attempt: int) -> Offer | None:
        """The offer of an attempt, or None past the last one."""
        offers = self._engine_of(attempt).offers
        return None if offers is None else offers.offer(attempt)

    async def answer(self, request: ChatRequest) -> ChatReply:
        """Answer one request.

        Raises:
            EngineError: no answer came.
        """
        return await self._engine_of(request.attempt).answer(request)

    async def close(self) -> None:
        """Let go of what the engines hold."""
        for engine in self._engines:
            await engine.close()

    def _engine_of(self, attempt: int) -> Engine:
        return self._engines[find_version(attempt, self._earlier)]


C = TypeVar("C", bound="EngineConfig", contravariant=True)


@dataclass(frozen=True)
class EngineContext:
    """What an engine may need beside its configuration.

    `tools` are those of the bank, for engines that write from the reference itself, and `folder`
    is the run's, for engines that leave files there. `earlier` are the versions of the bank's
    catalogue before `tools`: no engine need look at them, see `EngineKind.create`.
    """

    tools: Sequence[Tool] = ()
    seed: int = 0
    folder: Path | None = None
    earlier: Sequence[CatalogueVersion] = ()


class Filler(Protocol):
    """Fills the journal a round at a time, for engines whose replies don't come at once."""

    @property
    def failures(self) -> Mapping[str, EngineError]:
        """The requests that are given up for good, by their keys."""
        ...

    def holds(self, key: str) -> bool:
        """Whether a request was sent before, so that its reply costs nothing more."""
        ...

    async def exchange(self, missing: Sequence[ChatRequest]) -> str:
        """Put into the journal what came of these requests; where nothing did, send them.

        Gives "" where some of them are in the journal or in `failures` now, and else what the
        user has to do before they can be.

        Raises:
            ToolbankError: the round can't be sent.
        """
        ...


def refuse_options(config: EngineConfig, known: Sequence[str] = ()) -> None:
    """Refuse options that an engine doesn't have; it has those that are `known`.

    Raises:
        InputError: there is one of another name.
    """
    for name in config.options:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            meant = f" Did you mean {near[0]}?" if near else ""
            has = f"It has {', '.join(known)}." if known else "It has none."
            raise InputError(
                f"{config.section}.options.{name}: the engine {config.engine} has no such "
                f"option.{meant} {has}"
            )


def refuse_executor(config: EngineConfig) -> None:
    """Refuse workers of a cluster, of an engine that makes no calls to be shared out.

    Raises:
        InputError: the recipe has it run by some.
    """
    if config.executor != "local":
        raise InputError(
            f"{config.section}.executor: the engine {config.engine} makes no calls that workers "
            "could take over. Leave `executor` out."
        )


def refuse_settings(config: EngineConfig) -> None:
    """Refuse options, sampling parameters and workers, of an engine that has none of them.

    Raises:
        InputError: there is one.
    """
    refuse_options(config)
    refuse_executor(config)
    if config.parameters:
        raise InputError(
            f"{config.section}.parameters: the engine {config.engine} takes none. Leave them out."
        )


def _describe(config: EngineConfig) -> str:
    if config.model:
        return f"{config.model} through {config.engine}"
    return f"the engine {config.engine}"


@dataclass(frozen=True, kw_only=True)
class EngineKind(Generic[C]):
    """A kind of engine: how one is made of a configuration, and what is so of all of them.

    - `make` gives the engine; it may raise an InputError. Use `create`, which checks before.
    - `check` refuses a configuration that no engine can be made of, before anything is read for
      it; `check_access` one whose key or package isn't on this machine. Both raise InputErrors.
    - `sends` gives which secrets of the environment go where, which the user has to have named. Of
      an engine that doesn't say, it is the key that the configuration names, to its `base_url`.
    - `identity` is that of the engine for a seed, without making it; "" where that isn't known.
    - `files` are those of the user's whose content shapes the replies.
    - `describe` says who writes, such as "gpt-4o at https://...", and `place` where calls go.
    - `gpus` are those that one engine takes, for a cluster to find room for it.
    - `timeout`: seconds a try may take where a configuration doesn't say; None is no limit.
    - `asks_model`: calls cost something, and prompts are read.
    - `sections` are those of a recipe that it can work for; None: all.
    - `copies_wording`: queries are of the reference's own words, so that they favour retrievers by
      words. `plays_back`: they were written before, by another.
    - `fill`, where replies come in rounds: what fills the journal in place of the engine.
    - `default_queries`: how many are wanted where a recipe doesn't say; None is all it has.
    - `count_queries`: how many it has at most; None is as many as are wanted. May raise an InputError.
    """

    name: str
    make: Callable[[C, EngineContext], Engine]
    check: Callable[[C], object] = refuse_options
    check_access: Callable[[C], object] = lambda _: None
    sends: Callable[[C], Sequence[Grant]] = find_grants
    identity: Callable[[C, int], str] = lambda *_: ""
    files: Callable[[C], tuple[Path, ...]] = lambda _: ()
    describe: Callable[[C], str] = _describe
    place: Callable[[C], str] = lambda config: config.engine
    gpus: Callable[[C], int] = lambda _: 0
    timeout: float | None = DEFAULT_TIMEOUT_S
    asks_model: bool = True
    sections: tuple[str, ...] | None = None
    copies_wording: bool = False
    plays_back: bool = False
    fill: Callable[[C, Journal, CallCounts], Filler] | None = None
    default_queries: int | None = 1000
    count_queries: Callable[[C], int | None] = lambda _: None

    @property
    def in_rounds(self) -> bool:
        """Whether replies don't come at once."""
        return self.fill is not None

    def find_secrets(self, config: C) -> tuple[str, ...]:
        """The values of the environment that are sent, to be hidden in what comes back."""
        secrets = (s for grant in self.sends(config) for s in grant.secrets)
        return tuple(dict.fromkeys(secrets))

    def create(self, config: C, context: EngineContext) -> Engine:
        """The engine of a configuration.

        Where its replies or offers follow from the tools themselves, one that has another for
        each version of the catalogue.

        Raises:
            InputError: it can't be used (a model, key, package or file is missing, or an option
                is not one of its own, a key may not go there), or what the kind makes is no
                engine.
        """
        self.check(config)
        require_consent(self.sends(config), config.section)
        engine = self._make(config, context)
        if not context.earlier or (self.asks_model and engine.offers is None):
            return engine
        before = [
            self._make(config, replace(context, tools=version.tools))
            for version in context.earlier
        ]
        return EngineByVersion([*before, engine], context.earlier)

    def _make(self, config: C, context: EngineContext) -> Engine:
        key = f"{config.section}.engine"
        try:
            with telling_extras():
                engine = self.make(config, context)
        except ToolbankError:
            raise
        except Exception as error:
            said = f"{type(error).__name__}: {error}".removesuffix(": ")
            said = hide(said, self.find_secrets(config))
            raise InputError(
                f"{key}: the engine {self.name!r} can't be made ({said})."
            ) from error
        if lacks := _lacks(engine):
            raise InputError(
                f"{key}: {self.name!r} is no engine: it made {type(engine).__name__!r}, which "
                f"lacks {', '.join(lacks)}."
            )
        return engine


def _lacks(engine: Any) -> list[str]:
    """What an object would need to be an `Engine`."""
    strings = ("name", "model", "identity")
    missing = [
        f"a string `{name}`"
        for name in strings
        if not isinstance(getattr(engine, name, None), str)
    ]
    if not hasattr(engine, "offers"):
        missing.append("`offers`")
    missing += [
        f"an async method `{name}`"
        for name in ("answer", "close")
        if not iscoroutinefunction(getattr(engine, name, None))
    ]
    return missing
