"""All sources of a recipe, read into one list of tools."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolbank.bank.records import Tool
from toolbank.config.assets import find_asset, has_asset
from toolbank.sources.config import PythonSource, SourceConfig, SphinxSource
from toolbank.sources.installed import package_version, source_hash
from toolbank.sources.names import with_prompt_names
from toolbank.system.errors import InputError


@dataclass(frozen=True)
class Collected:
    """Tools sorted by name, and `info`: what each source gave, for bank.json.

    `crawls` says of each crawl what became of every object and page. `problems` are lines for people on what could not be read. Not `complete`: some of it failed
    for a reason that may pass, so that collecting again may give more.
    """

    tools: tuple[Tool, ...]
    info: dict[str, Any]
    crawls: tuple[dict[str, Any], ...] = ()
    problems: tuple[str, ...] = ()
    complete: bool = True


@dataclass(frozen=True)
class _Read:
    """The same of one source, its tools in any order."""

    tools: Sequence[Tool]
    info: dict[str, Any]
    problems: tuple[str, ...]
    complete: bool
    crawl: dict[str, Any] | None = None


def collect_tools(sources: Sequence[SourceConfig], cache: Path) -> Collected:
    """Read every source; of two tools of one name the first source's counts.

    `cache` is a folder that a crawl may keep its pages in. Every tool gets its prompt name.

    Raises:
        InputError: a source can't be read, or all of them together give no tool.
    """
    tools: dict[str, Tool] = {}
    infos: list[dict[str, Any]] = []
    reads = [_read(source, cache) for source in sources]
    for read in reads:
        repeated = 0
        for tool in read.tools:
            if tool.name in tools:
                repeated += 1
            else:
                tools[tool.name] = tool
        infos.append(
            {**read.info, "tools": len(read.tools) - repeated, "repeated": repeated}
        )
    if not tools:
        raise InputError(
            "sources: no tool was found. Give a source that has some, such as "
            "{type: python, package: numpy}."
        )
    named = with_prompt_names([tools[name] for name in sorted(tools)])
    return Collected(
        tuple(named),
        {"tools": len(named), "sources": infos},
        crawls=tuple(read.crawl for read in reads if read.crawl is not None),
        problems=tuple(problem for read in reads for problem in read.problems),
        complete=all(read.complete for read in reads),
    )


def source_versions(sources: Sequence[SourceConfig]) -> list[str]:
    """What stands for the content of each source without reading it.

    Version of the package, with a hash of one that may change under its version; or address of
    the site; and the hash of the file in crawlers/ that gives the scope, where there is one. A
    change of any says that the tools must be collected again.
    """
    return [_version(source) for source in sources]


def _read(source: SourceConfig, cache: Path) -> _Read:
    if isinstance(source, PythonSource):
        from toolbank.sources.python import inspect_package

        read = inspect_package(source)
        info = {
            "source": read.source,
            "left_out": read.skipped,
            "left_out_examples": read.examples,
        }
        problems = tuple(
            f"{read.source}: {count:,} left out, {reason}: "
            f"{', '.join(read.examples.get(reason, ()))}"
            for reason, count in read.skipped.items()
            if reason.startswith("can't be")
        )
        return _Read(read.tools, info, problems, complete=True)
    from toolbank.sources.sphinx import crawl_site

    result = crawl_site(source, cache)
    return _Read(
        result.tools,
        {"source": source.label, **result.info},
        result.problems,
        result.complete,
        {"source": source.label, **result.record},
    )


def _version(source: SourceConfig) -> str:
    if isinstance(source, SphinxSource):
        rules = f"#{_scope_hash(source.site)}" if source.site else ""
        return f"{source.label}@{source.base_url}{rules}"
    scope = ""
    if source.has_default_scope and has_asset("crawlers", f"{source.package}.yaml"):
        scope = f"#{_scope_hash(source.package)}"
    content = source_hash(source.package)[:16]
    return f"python:{package_version(source.package)}{content and '+'}{content}{scope}"


def _scope_hash(site: str) -> str:
    return find_asset("crawlers", f"{site}.yaml").sha256[:16]
