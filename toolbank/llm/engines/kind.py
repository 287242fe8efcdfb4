"""Kinds of engines, and how one is created from a configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from toolbank.bank.split import CatalogueVersion, find_version
from toolbank.llm.chat import ChatReply, ChatRequest, Engine, Offer, Offers
from toolbank.llm.config import DEFAULT_TIMEOUT_S, find_grants
from toolbank.system.consent import require_consent
from toolbank.system.errors import InputError, ToolbankError
from toolbank.system.extras import naming_extras, require_library
from toolbank.system.secrets import hide

if TYPE_CHECKING:
    from pydantic import JsonValue

    from toolbank.bank.records import Tool
    from toolbank.llm.accounts import CallCounts
    from toolbank.llm.chat import EngineError
    from toolbank.llm.config import EngineConfig
    from toolbank.llm.journal import Journal
    from toolbank.system.consent import Grant


class EngineByVersion:
    """Answer each attempt by the engine of the tools' version that the attempt began with.

    The identity is that of the first engine, so replies in the journal stay valid: no attempt
    belongs to two versions. `missing` and `unused` are those of the newest engine.
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
        """The attempts that the engines provide, if any."""
        return None if self._engines[-1].offers is None else self

    def offer(self, attempt: int) -> Offer | None:
        """Get the offer of an attempt, or None after the last one."""
        offers = self._engine_of(attempt).offers
        return None if offers is None else offers.offer(attempt)

    async def answer(self, request: ChatRequest) -> ChatReply:
        """Answer one request.

        Raises:
            EngineError: there is no answer.
        """
        return await self._engine_of(request.attempt).answer(request)

    async def close(self) -> None:
        """Close all engines."""
        for engine in self._engines:
            await engine.close()

    def _engine_of(self, attempt: int) -> Engine:
        return self._engines[find_version(attempt, self._earlier)]


C = TypeVar("C", bound="EngineConfig", contravariant=True)


@dataclass(frozen=True)
class EngineContext:
    """What an engine may need in addition to its configuration.

    `tools` are those of the bank, for engines that write from the reference itself. `folder` is
    the run folder, for engines that write files. `earlier` has the versions of the catalogue
    before `tools`, which `EngineKind.create` handles for every engine.
    """

    tools: Sequence[Tool] = ()
    seed: int = 0
    folder: Path | None = None
    earlier: Sequence[CatalogueVersion] = ()


class Filler(Protocol):
    """Fills the journal a round at a time, for engines that reply later.

    With an attribute `sends` that is false, requests that the journal lacks are not made.
    """

    @property
    def failures(self) -> Mapping[str, EngineError]:
        """The requests that are given up, by their keys."""
        ...

    def holds(self, key: str) -> bool:
        """Whether a request was sent before, so its reply costs nothing more."""
        ...

    async def exchange(self, missing: Sequence[ChatRequest]) -> str:
        """Put the replies to these requests into the journal; if there are none, send them.

        Returns "" when some of them are in the journal or in `failures`, else what the user has
        to do next.

        Raises:
            ToolbankError: the round can't be sent.
        """
        ...


def refuse_options(config: EngineConfig, known: Sequence[str] = ()) -> None:
    """Refuse options of other names than the `known` ones.

    Raises:
        InputError: there is one.
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
    """Refuse cluster workers, for an engine that makes no calls.

    Raises:
        InputError: the recipe sets `executor`.
    """
    if config.executor != "local":
        raise InputError(
            f"{config.section}.executor: the engine {config.engine} makes no calls that workers "
            "could take over. Remove `executor`."
        )


def refuse_taken(key: str, given: Iterable[str], taken: Mapping[str, str]) -> None:
    """Refuse parameters or options that can't be set; `taken` has what to do instead.

    Raises:
        InputError: there is one.
    """
    for name in given:
        if name in taken:
            raise InputError(f"{key}.{name}: can't be set here; {taken[name]}.")


def require_executor(config: EngineConfig) -> None:
    """Refuse to continue without Ray if a configuration needs it.

    Raises:
        InputError: it is not installed.
    """
    if config.executor == "ray":
        require_library("ray", f"{config.section}.executor")


def refuse_settings(config: EngineConfig) -> None:
    """Refuse options, sampling parameters and workers, for an engine that has none of them.

    Raises:
        InputError: there is one.
    """
    refuse_options(config)
    refuse_executor(config)
    if config.parameters:
        raise InputError(
            f"{config.section}.parameters: the engine {config.engine} takes none. Remove them."
        )


_releases: dict[Callable[[], None], None] = {}


def keep_for_later_stages(release: Callable[[], None]) -> None:
    """Register the function that frees what an engine keeps loaded after it was closed."""
    _releases[release] = None


def release_engines() -> None:
    """Free what closed engines keep loaded, such as a model on the GPU."""
    for release in _releases:
        release()


def _describe(config: EngineConfig) -> str:
    if config.model:
        return f"{config.model} through {config.engine}"
    return f"the engine {config.engine}"


@dataclass(frozen=True, kw_only=True)
class EngineKind(Generic[C]):
    """A kind of engine: how one is made from a configuration, and what all of them share.

    - `make` creates the engine and may raise an InputError. Call `create` instead, which checks
      the configuration first.
    - `check` refuses an invalid configuration before anything is read; `check_access` one whose
      key or package is not on this machine. Both raise InputErrors.
    - `sends` lists which secrets of the environment go where; the user has to consent. By default
      the key that the configuration names goes to its `base_url`.
    - `identity` is the engine's identity for a seed, without making it; "" if unknown.
    - `files` are the user's files whose content shapes the replies.
    - `describe` names the writer, such as "gpt-4o at https://...", and `place` where calls go.
    - `gpus`: how many one engine needs on a cluster.
    - `timeout`: seconds per try if the configuration has none; None is no limit.
    - `asks_model`: calls cost money, and prompts are read.
    - `sections` are the recipe sections that it can serve; None: all.
    - `copies_wording`: queries use the reference's own words, which favours lexical retrievers.
      `plays_back`: queries were written before, by another engine.
    - `fill`, if replies come in rounds: fills the journal in place of the engine. `send_only` has
      the `options` with which a round is sent and its replies are not awaited.
    - `default_queries`: how many to write if the recipe does not say; None is all that it has.
    - `count_queries`: how many it has at most; None is no limit. May raise an InputError.
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
    send_only: Callable[[C], Mapping[str, JsonValue]] = lambda config: config.options
    default_queries: int | None = 1000
    count_queries: Callable[[C], int | None] = lambda _: None

    @property
    def in_rounds(self) -> bool:
        """Whether replies come in rounds."""
        return self.fill is not None

    def find_secrets(self, config: C) -> tuple[str, ...]:
        """Find the values of the environment that are sent, to hide them in replies."""
        secrets = (s for grant in self.sends(config) for s in grant.secrets)
        return tuple(dict.fromkeys(secrets))

    def create(self, config: C, context: EngineContext) -> Engine:
        """Create the engine of a configuration.

        If its replies or offers depend on the tools themselves, it has an engine for each version
        of the catalogue.

        Raises:
            InputError: a model, key, package or file is missing, an option is invalid, or the
                user has not consented to where a key goes.
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
        try:
            with naming_extras():
                return self.make(config, context)
        except ToolbankError:
            raise
        except Exception as error:
            # An error of another package may contain the key.
            message = hide(
                f"{type(error).__name__}: {error}", self.find_secrets(config)
            )
            raise InputError(
                f"{config.section}.engine: the engine {self.name!r} can't be created ({message})."
            ) from error
