"""Base classes of sources: configuration, kind, and the result of reading one."""

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
from toolbank.system.files import reading
from toolbank.system.net import is_url

if TYPE_CHECKING:
    from toolbank.sources.checks import SchemaCheck

_MOST_MB = 64
_MOST_S = 60.0


@dataclass(frozen=True)
class Location:
    """A file, folder, URL, command line or package name that a user typed."""

    text: str

    @property
    def is_url(self) -> bool:
        """Whether it is an http or https URL."""
        return is_url(self.text)

    @cached_property
    def path(self) -> Path | None:
        """The existing file or folder, or None."""
        try:
            path = Path(self.text).expanduser()
            return path if not self.is_url and path.exists() else None
        except (OSError, ValueError, RuntimeError):
            return None

    @cached_property
    def content(self) -> bytes:
        """The first 64 MB of a file, or the response of a URL; else empty.

        Raises:
            InputError: it can't be read.
            ToolbankError: the URL can't be read now.
        """
        if self.is_url:
            from toolbank.sources.documents import Documents

            return Documents(most_s=_MOST_S, most_mb=_MOST_MB).download(self.text)[1]
        if self.path is None or not self.path.is_file():
            return b""
        with reading(self.path), self.path.open("rb") as file:
            return file.read(_MOST_MB * 2**20)


_Name = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$", max_length=100),
]


class SourceConfig(Config):
    """An entry of a recipe's `sources`; `type` is the registered name of its kind."""

    type: str
    name: _Name | None = Field(
        default=None, description="name in messages and in the bank"
    )
    prefix: _Name | None = Field(
        default=None,
        description="prefix of its tools: prefix/tool",
    )

    @property
    @abstractmethod
    def label(self) -> str:
        """The name in messages, such as sphinx:numpy; TYPE:NAME if it has a `name`."""

    @property
    def place(self) -> Path | str:
        """The file, folder, URL or command that it is read from, or "".

        Sources with the same label but different places are different sources.
        """
        return next(iter(paths_in(self)), "")

    @property
    def api_name(self) -> str:
        """The common name of the API, such as numpy; "" if unknown."""
        return ""

    @property
    def scope_name(self) -> str | None:
        """The file in crawlers/, without .yaml, that selects what is read, if any."""
        return None


@dataclass(frozen=True)
class ToolCollection:
    """The tools of a source, or of all sources of a recipe.

    `info` goes into bank.json: the `source`, counts of skipped objects by reason (`left_out`),
    some of their names (`left_out_examples`), and the names of all that only lack a docstring
    (`undocumented`). `crawls` list what became of every object and page of a crawl. `problems` are
    messages on what could not be read, `notes` on what was skipped on purpose. If it is not
    `complete`, reading again may give more; `unread` are then the labels of the missing tools, by
    default all labels of the source. `check` knows the schemas that are already checked.
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

    Attributes:
        config: the class of its entries in a recipe. Its module imports nothing heavy.
        read_tools: returns the tools, sorted by name, and may keep files in the given folder.
            Raises InputError, or ToolbankError if trying again may help.
        content_id: identifies the content without reading it. When it changes, the tools are
            read again. The file of `scope_name` is not part of it.
        keeps: a sentence on what stays in the folder when reading is interrupted, or "".
        places: files and folders of this machine that the configuration names.
        licence: names the source and its licence, by the metadata of its package; "" if unknown.
        starts: the command lines that reading starts on this machine.
        recognise: returns the configuration that reads a location, or None. Starts nothing.
        takes: what `recognise` accepts, such as "an installed package".
        anew: returns a configuration that does not use kept files without checking them.
        labels: the values that a tool's `source` may have. Starts nothing.

    Call `read` and `version`: they turn unexpected errors into messages for the user.
    """

    config: type[C]
    read_tools: Callable[[C, Path], ToolCollection]
    content_id: Callable[[C], str]
    keeps: str = ""
    places: Callable[[C], tuple[Path, ...]] = lambda _: ()
    licence: Callable[[C], str] = lambda _: ""
    starts: Callable[[C], tuple[str, ...]] = lambda _: ()
    recognise: Callable[[Location], C | None] = lambda _: None
    takes: str = ""
    anew: Callable[[C], C] = lambda config: config
    labels: Callable[[C], tuple[str, ...]] = lambda config: (config.label,)

    def read(self, config: C, cache: Path) -> ToolCollection:
        """Read a source; it may keep files in `cache`.

        Raises:
            InputError: it can't be read, or a tool has no name or unsound parameters.
            ToolbankError: it can't be read now; trying again may help.
        """
        from toolbank.sources.checks import check_tools

        with self._reading(config):
            collected = self.read_tools(config, cache)
            check_tools(collected.tools, config.label, collected.check)
        return replace(collected, check=None)

    def version(self, config: C) -> str:
        """Identify the content of a source.

        Raises:
            InputError: there is nothing to read.
        """
        with self._reading(config):
            return self.content_id(config)

    def _reading(self, config: C) -> AbstractContextManager[None]:
        return reading_content(
            f"sources: {config.label}", f"a source of the type {config.type}"
        )
