"""Describe a kind of source, what reading one gives, and what a user points at."""

from abc import abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar

from pydantic import Field, StringConstraints

from toolbank.bank.records import Tool
from toolbank.config.base import Config, paths_in
from toolbank.config.explain import reading_content
from toolbank.system.errors import InputError
from toolbank.system.files import reading
from toolbank.system.net import is_loopback, is_url, origin

if TYPE_CHECKING:
    from toolbank.sources.checks import SchemaCheck


_MOST_BYTES = 64 * 1024 * 1024
_MOST_S = 60.0


@dataclass(frozen=True)
class Location:
    """A file, a folder, an address, a command line, or a name, as somebody typed it."""

    text: str

    @property
    def is_url(self) -> bool:
        """Whether it is an http or https address."""
        return is_url(self.text)

    @cached_property
    def path(self) -> Path | None:
        """The file or folder that it is; None where there is none of this name."""
        try:
            path = Path(self.text).expanduser()
            return path if not self.is_url and path.exists() else None
        except (OSError, ValueError, RuntimeError):
            return None

    @cached_property
    def content(self) -> bytes:
        """The beginning of a file, or what an address gives; of all else nothing.

        Raises:
            InputError: it can't be read.
            ToolbankError: the address can't be read now.
        """
        if self.is_url:
            return self._fetch()
        if self.path is None or not self.path.is_file():
            return b""
        with reading(self.path), self.path.open("rb") as file:
            return file.read(_MOST_BYTES)

    def _fetch(self) -> bytes:
        from toolbank.sources.document_fetch import fetch, shown

        own = origin(self.text)
        is_here = is_loopback(self.text)
        try:
            _, body = fetch(
                self.text,
                most_bytes=_MOST_BYTES,
                most_s=_MOST_S,
                may_lead_to=lambda _: True,
                is_let_in=lambda url: is_here and origin(url) == own,
            )
        except ValueError as error:
            raise InputError(f"{shown(self.text)}: is no address ({error}).") from error
        return body


_Name = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$", max_length=100),
]


class SourceConfig(Config):
    """An entry of a recipe's `sources`; `type` is the name that its kind is registered by."""

    type: str
    name: _Name | None = Field(
        default=None, description="what messages and the bank call the source"
    )
    prefix: _Name | None = Field(
        default=None,
        description="before the names of its tools, which are prefix/tool then",
    )

    @property
    @abstractmethod
    def label(self) -> str:
        """What messages call the source: sphinx:numpy, or TYPE:NAME where it has a `name`."""

    @property
    def place(self) -> Path | str:
        """Where it is read from: sources of other places are others, though they share a label.

        The file or folder, where it has one; else an address or a command, or "".
        """
        return next(iter(paths_in(self)), "")

    @property
    def api_name(self) -> str:
        """What people call the API that it reads, such as numpy; "" where that isn't known."""
        return ""

    @property
    def scope_name(self) -> str | None:
        """The file in crawlers/, without .yaml, that says what is read where there is one."""
        return None


@dataclass(frozen=True)
class Collected:
    """The tools of a source, or of all sources of a recipe, and what became of the rest.

    `info` goes into bank.json: it says which source it was, as `source`, and counts by reason what
    became no tool, as `left_out`; by reason, the names of some, as `left_out_examples`; and the
    names of all that only lack a docstring, as `undocumented`. `crawls` say of each crawl what
    became of every object and page. `problems` are lines for people on what could not be read,
    `notes` on what was left out for a reason that they may think otherwise of. Not `complete`: some
    of it could not be read, so that reading again may give more. `unread` are the labels that the
    tools of that part have; unset, those of the whole source. `check` is what the schemas have been
    held against already, where they have.
    """

    tools: tuple[Tool, ...]
    info: dict[str, Any]
    crawls: tuple[dict[str, Any], ...] = ()
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    complete: bool = True
    unread: tuple[str, ...] = ()
    check: "SchemaCheck | None" = None


C = TypeVar("C", bound=SourceConfig)


@dataclass(frozen=True)
class SourceKind(Generic[C]):
    """A kind of source.

    `config` is its part of a recipe, whose module imports nothing heavy. `read_tools` gives the
    tools, sorted by name and without prompt names, and may keep files in the folder that it is
    given; it raises InputError where there is nothing to be read, and ToolbankError where that may pass.
    `content_id` stands for the content without reading it: when it changes, the tools are read
    again. The file of `scope_name` is no part of it. `keeps` is a sentence on what of a reading
    that is stopped stays in the folder, where something does. `places` are folders and files on
    this machine that it finds by a name in the configuration. `starts` gives the command lines of
    what reading it starts on this machine, which only happens where the user wants the tools
    themselves. `recognise` gives the configuration that reads what a user points at, or None for
    what is another's: an address by its text, or else by `Location.content`; it starts nothing.
    `takes` says what that may be, such as "an installed package". `anew` gives the configuration
    that trusts nothing which it kept before. `labels` are what it may write as `source` of a tool;
    nothing is started for them. Use `read` and `version`, which make errors for people
    of what the two did not foresee.
    """

    config: type[C]
    read_tools: Callable[[C, Path], Collected]
    content_id: Callable[[C], str]
    keeps: str = ""
    places: Callable[[C], tuple[Path, ...]] = lambda _: ()
    starts: Callable[[C], tuple[str, ...]] = lambda _: ()
    recognise: Callable[[Location], C | None] = lambda _: None
    takes: str = ""
    anew: Callable[[C], C] = lambda config: config
    labels: Callable[[C], tuple[str, ...]] = lambda config: (config.label,)

    def read(self, config: C, cache: Path) -> Collected:
        """Read a source; files may be kept in `cache`.

        Raises:
            InputError: it can't be read, or a tool of it has no name or unsound parameters.
            ToolbankError: it can't be read now, which may pass.
        """
        from toolbank.sources.checks import check_tools

        with self._reading(config):
            collected = self.read_tools(config, cache)
            check_tools(collected.tools, config.label, collected.check)
        return replace(collected, check=None)

    def version(self, config: C) -> str:
        """What stands for the content of a source.

        Raises:
            InputError: there is nothing to be read.
        """
        with self._reading(config):
            return self.content_id(config)

    def _reading(self, config: C) -> AbstractContextManager[None]:
        return reading_content(
            f"sources: {config.label}", f"a source of the type {config.type}"
        )
