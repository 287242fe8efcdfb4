"""All sources of a recipe, read into one list of tools."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from toolbank.bank.records import Tool
from toolbank.config.assets import find_asset, has_asset
from toolbank.sources import SOURCES
from toolbank.sources.kind import Collected, SourceConfig
from toolbank.sources.prompt_names import with_prompt_names
from toolbank.system.errors import InputError, ToolbankError


def collect_tools(sources: Sequence[SourceConfig], cache: Path) -> Collected:
    """Read every source; of two tools of one name the first counts.

    `cache` is a folder that a source may keep files in, as a crawl does its pages. The tools are
    sorted by name, and each gets its prompt name.

    Raises:
        InputError: a source can't be read, or all of them together give no tool.
    """
    tools: dict[str, Tool] = {}
    infos: list[dict[str, Any]] = []
    collected = [_read(source, cache) for source in sources]
    for one in collected:
        before = len(tools)
        for tool in one.tools:
            tools.setdefault(tool.name, tool)
        new = len(tools) - before
        repeated = len(one.tools) - new
        infos.append({**one.info, "tools": new, "repeated": repeated})
    if not tools:
        raise InputError(
            "sources: no tool was found. Give a source that has some, such as "
            "{type: python, package: numpy}."
        )
    named = with_prompt_names([tools[name] for name in sorted(tools)])
    return Collected(
        tuple(named),
        {"tools": len(named), "sources": infos},
        crawls=tuple(crawl for one in collected for crawl in one.crawls),
        problems=tuple(problem for one in collected for problem in one.problems),
        complete=all(one.complete for one in collected),
    )


def source_versions(sources: Sequence[SourceConfig]) -> list[str]:
    """What stands for the content of each source without reading it.

    The version that its kind tells, and the hash of the file in crawlers/ that gives the scope,
    where there is one. A change of any says that the tools must be collected again.
    """
    return [_version(source) + _scope_hash(source) for source in sources]


def _read(source: SourceConfig, cache: Path) -> Collected:
    kind = SOURCES.find(source.type, "sources")
    with _named(source):
        return kind.read(source, cache)


def _version(source: SourceConfig) -> str:
    kind = SOURCES.find(source.type, "sources")
    with _named(source):
        return kind.version(source)


@contextmanager
def _named(source: SourceConfig) -> Iterator[None]:
    """Have what a kind did not foresee in the content name the source."""
    try:
        yield
    except (ToolbankError, OSError):
        raise
    except Exception as error:
        raise InputError(
            f"sources: {source.label} can't be read ({type(error).__name__}: {error}). "
            f"Is it what a source of the type {source.type} reads?"
        ) from error


def _scope_hash(source: SourceConfig) -> str:
    name = f"{source.scope_name}.yaml"
    if source.scope_name is None or not has_asset("crawlers", name):
        return ""
    return f"#{find_asset('crawlers', name).sha256[:16]}"
