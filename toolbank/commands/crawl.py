"""`toolbank crawl`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer

from toolbank.bank.files import read_tools, write_tools
from toolbank.bank.records import Tool
from toolbank.commands.options import complain, echo
from toolbank.config.explain import explaining
from toolbank.sources.sphinx.settings import SphinxSource
from toolbank.sources.web.policy import CrawlPolicy
from toolbank.system.errors import InputError, InterruptedByUserError, ToolbankError
from toolbank.system.files import read_json, write_text
from toolbank.system.folders import (
    Files,
    FolderKind,
    claim_folder,
    hash_files,
    is_unchanged,
    remove_files,
    set_aside,
    write_mark,
)
from toolbank.system.numbers import count
from toolbank.system.terminal import one_line, print_message

if TYPE_CHECKING:
    from toolbank.sources.sphinx.tools import Crawl

_RECORD = {"objects", "left_out", "failed_pages"}


def _recognize(path: Path) -> Files | None:
    """Whether a folder is that of a crawl of an early version, which left no mark."""
    with suppress(InputError, AttributeError):
        if read_json(path / "crawl.json").keys() >= _RECORD:
            return {}
    return None


CRAWL = FolderKind("crawl", former="toolbank-crawl.json", recognize=_recognize)

_GONE = {"HTTP status 404", "HTTP status 410"}


@dataclass(frozen=True)
class CrawlFolder:
    """A crawl on disk: tools.parquet, crawl.json and cache/ in `path`, rules.yaml if guessed."""

    path: Path
    crawl: Crawl

    @property
    def problems(self) -> tuple[str, ...]:
        """Lines on what could not be read."""
        from toolbank.sources.sphinx.crawl import problems

        return problems(self.crawl)

    def describe(self) -> str:
        """What came of the crawl, where it lies, and for a site without rules those it has now."""
        from toolbank.sources.sphinx.crawl import summarize
        from toolbank.sources.sphinx.guess import site_yaml

        lines = [
            summarize(self.crawl),
            f"Wrote {self.path}: tools.parquet ({count(len(self.crawl.tools), 'tool')}), crawl.json "
            "(what became of every object, and pages that failed).",
        ]
        if _GONE & set(self.crawl.failed.values()):
            lines.append(
                "That a page is gone is kept for a week; with --refresh the site is asked again."
            )
        if self.crawl.guessed:
            lines += [
                "",
                f"The rules that were used, kept in {self.path / 'rules.yaml'}. To change them, "
                "save them as crawlers/<name>.yaml and run toolbank crawl <name>:",
                "",
                site_yaml(self.crawl.found),
            ]
        return "\n".join(lines)


def crawl_to_folder(
    out: Path | None,
    *,
    site: str | None = None,
    base_url: str | None = None,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    contact: str | None = None,
    refresh: bool = False,
    private_addresses: bool = False,
) -> CrawlFolder:
    """Crawl a site of crawlers/, or any by its address, into `out` or crawls/<site>.

    With `refresh`, pages that the folder's cache has are asked for again if they have changed;
    with `private_addresses`, a public name may lead into a private network.

    Raises:
        InputError: there is no such site or address, or nothing to be read there.
        ToolbankError: the site is down, the folder can't be written to, or Ctrl-C was pressed.
    """
    from toolbank.sources.sphinx.crawl import crawl_site
    from toolbank.sources.sphinx.guess import site_yaml

    policy: dict[str, Any] = {
        "contact": contact or "",
        "private_addresses": private_addresses,
    }
    if refresh:
        policy["max_age_h"] = 0
    with explaining(SphinxSource.model_json_schema(), "crawl"):
        source = SphinxSource(
            site=site,
            base_url=base_url,
            include=tuple(include),
            exclude=tuple(exclude),
            crawl=CrawlPolicy.model_validate(policy),
        )
    path = out or Path("crawls") / (site or _slug(source.base_url or ""))
    if path.suffix == ".parquet":
        raise InputError(
            f"{path}: a crawl is written to a folder. Give one, such as --out crawls/numpy."
        )
    left = claim_folder(path, CRAWL)
    rules = path / "rules.yaml"
    own = (path / "crawl.json", path / "tools.parquet", rules)
    if kept := set_aside(
        path, (p for p in own if not is_unchanged(path, p.name, left))
    ):
        print_message(f"{path}: what no crawl left there as it is, is in {kept}")
    try:
        crawl = crawl_site(source, path / "cache", path / "crawl.json")
    except KeyboardInterrupt as error:
        raise InterruptedByUserError(
            f"stopped. Pages that were read are kept in {path / 'cache'}; the same command goes "
            "on from there."
        ) from error
    finally:
        # Where it isn't noted, the next crawl sets it aside.
        with suppress(ToolbankError):
            record = hash_files(path, filter(Path.is_file, own[:1]))
            write_mark(path, CRAWL, {**left, **record})
    if crawl.guessed:
        write_text(rules, site_yaml(crawl.found))
    else:
        remove_files(path, left, rules)
    write_tools(path / "tools.parquet", crawl.tools)
    write_mark(path, CRAWL, hash_files(path, filter(Path.is_file, own)))
    return CrawlFolder(path, crawl)


def _slug(url: str) -> str:
    parts = urlsplit(url)
    return re.sub(r"[^\w.]+", "-", f"{parts.netloc}{parts.path}").strip("-.") or "site"


_TEXTS = ("summary", "description", "notes", "examples")
_SHORT = 100
_BEFORE = 20


@dataclass(frozen=True)
class CrawlComparison:
    """Tools by name: new ones, those that are gone, and what changed of the others.

    `renamed` holds names that are gone as tools and are now another name of one, by that one's
    name. `changed` are called in another way or give something else, `reworded` are only
    described in other words. A tool whose every field but its address is the same did not change.
    """

    added: tuple[Tool, ...]
    removed: tuple[Tool, ...]
    renamed: dict[str, str]
    changed: dict[str, tuple[str, ...]]
    reworded: dict[str, tuple[str, ...]]
    same: int

    def describe(self) -> str:
        """The comparison as text, the counts first."""
        lines = [
            f"{len(self.added):,} added, {len(self.removed):,} removed, "
            f"{len(self.renamed):,} now another name, {len(self.changed):,} changed, "
            f"{len(self.reworded):,} reworded, {self.same:,} the same."
        ]
        lines += [
            f"+ {tool.name}: {one_line(tool.summary, _SHORT)}" for tool in self.added
        ]
        lines += [
            f"- {tool.name}: {one_line(tool.summary, _SHORT)}" for tool in self.removed
        ]
        lines += [f"= {old} is now {new}" for old, new in self.renamed.items()]
        for name, changes in self.changed.items():
            lines.append(f"~ {name}")
            lines.extend(f"    {change}" for change in changes)
        lines += [
            f"  {name}: {'; '.join(texts)}" for name, texts in self.reworded.items()
        ]
        return "\n".join(lines)


def compare_crawls(old: Path, new: Path) -> str:
    """Compare the tools in two folders (of a crawl, a bank or a run) or tools.parquet files.

    Raises:
        InputError: there are no tools at one of them.
    """
    lines = [_caution(old), _caution(new)]
    comparison = compare_tools(_tools(old), _tools(new))
    return "\n".join([*(line for line in lines if line), comparison.describe()])


def compare_tools(old: Sequence[Tool], new: Sequence[Tool]) -> CrawlComparison:
    """Compare two lists of tools by name."""
    before = {tool.name: tool for tool in old}
    after = {tool.name: tool for tool in new}
    aliases = {alias: tool.name for tool in new for alias in tool.aliases}
    gone = before.keys() - after.keys()
    changed: dict[str, tuple[str, ...]] = {}
    reworded: dict[str, tuple[str, ...]] = {}
    both = sorted(before.keys() & after.keys())
    for name in both:
        calls = list(_call_changes(before[name], after[name]))
        words = list(_word_changes(before[name], after[name]))
        if calls:
            changed[name] = (*calls, *words)
        elif words:
            reworded[name] = tuple(words)
    return CrawlComparison(
        added=tuple(after[name] for name in sorted(after.keys() - before.keys())),
        removed=tuple(before[name] for name in sorted(gone - aliases.keys())),
        renamed={name: aliases[name] for name in sorted(gone & aliases.keys())},
        changed=changed,
        reworded=reworded,
        same=len(both) - len(changed) - len(reworded),
    )


def _tools(path: Path) -> tuple[Tool, ...]:
    places = (path / "tools.parquet", path / "bank" / "tools.parquet")
    if not path.exists():
        raise InputError(f"{path}: there is no such crawl, bank or run.")
    if path.is_dir():
        for place in places:
            if place.is_file():
                return read_tools(place)
        raise InputError(
            f"{path}: no tools.parquet in it. Give the folder of a crawl or a run."
        )
    return read_tools(path)


def _caution(path: Path) -> str:
    """What to bear in mind of crawls that did not get every page."""
    lost = 0
    for record in (path / "crawl.json", path / "bank" / "crawl.json"):
        data = read_json(record) if record.is_file() else {}
        crawls = data.get("sources", [data]) if isinstance(data, dict) else []
        for crawl in crawls if isinstance(crawls, list) else []:
            pages = crawl.get("failed_pages") if isinstance(crawl, dict) else None
            lost += len(pages) if isinstance(pages, dict) else 0
    if not lost:
        return ""
    return f"{path}: pages that failed: {lost:,}. Their tools look removed or new."


def _facts(tool: Tool) -> dict[str, str]:
    """What a caller has to know besides the parameters."""
    return {
        "kind": tool.kind,
        "signature": tool.signature,
        "returns": ", ".join(value.type for value in tool.returns if value.type),
        "raises": ", ".join(sorted({item.type for item in tool.raises})),
        "deprecated": tool.deprecated,
        "other names": ", ".join(tool.aliases),
    }


def _call_changes(old: Tool, new: Tool) -> Iterator[str]:
    """What a caller must know of, a line each."""
    before, after = _facts(old), _facts(new)
    for name, value in before.items():
        is_reworded = name == "deprecated" and value and after[name]
        if value != after[name] and not is_reworded:
            yield f"{name}: {_differing(value, after[name])}"
    yield from _parameter_changes(old.parameters, new.parameters)
    if before["returns"] == after["returns"] and _structures(old) != _structures(new):
        yield "returns: another structure"
    for note in new.versions:
        if note not in old.versions:
            about = f" ({note.parameter})" if note.parameter else ""
            yield f"{note.change} in {note.version}{about}: {one_line(note.description, _SHORT)}"


def _parameter_changes(old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    before, after = old.get("properties", {}), new.get("properties", {})
    needed = set(old.get("required", ())), set(new.get("required", ()))
    for name in [name for name in after if name not in before]:
        is_required = ", required" if name in needed[1] else ""
        yield f"parameter {name}: added{is_required}"
    for name in before:
        if name not in after:
            yield f"parameter {name}: removed"
            continue
        if (name in needed[0]) != (name in needed[1]):
            how = "now required" if name in needed[1] else "no longer required"
            yield f"parameter {name}: {how}"
        yield from _schema_changes(name, before[name], after[name])
    common = [name for name in after if name in before]
    if common != [name for name in before if name in after]:
        yield "parameters: in another order"


def _schema_changes(
    name: str, old: dict[str, Any], new: dict[str, Any]
) -> Iterator[str]:
    before, after = _without_words(old), _without_words(new)
    for key in sorted(before.keys() | after.keys()):
        if before.get(key) != after.get(key):
            values = [
                json.dumps(schema[key], ensure_ascii=False) if key in schema else ""
                for schema in (before, after)
            ]
            yield f"parameter {name}: {key} {_differing(*values)}"


def _without_words(schema: Any) -> Any:
    """A schema without the descriptions in it; a property may have that name."""
    if isinstance(schema, list):
        return [_without_words(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: _without_words(inner) for name, inner in value.items()}
        if key == "properties"
        else _without_words(value)
        for key, value in schema.items()
        if key != "description"
    }


def _structures(tool: Tool) -> list[Any]:
    return [_without_words(value.structure) for value in tool.returns]


def _word_changes(old: Tool, new: Tool) -> Iterator[str]:
    """What is described in other words."""
    texts = [name for name in _TEXTS if getattr(old, name) != getattr(new, name)]
    if texts:
        yield f"words of {', '.join(texts)}"
    was, now = (tool.parameters.get("properties", {}) for tool in (old, new))
    parameters = [
        name
        for name in now
        if name in was
        and was[name] != now[name]
        and _without_words(was[name]) == _without_words(now[name])
    ]
    if parameters:
        yield f"words of parameters {', '.join(parameters)}"
    before, after = _facts(old), _facts(new)
    texts = [
        name
        for name in ("deprecated", "returns", "raises", "see_also")
        if (
            before.get(name) == after.get(name)
            or (name == "deprecated" and before[name] and after[name])
        )
        and getattr(old, name) != getattr(new, name)
        and (name != "returns" or _structures(old) == _structures(new))
    ]
    if texts:
        yield f"words of {', '.join(texts)}"
    if any(note not in new.versions for note in old.versions):
        yield "older version notes changed"


def _differing(old: str, new: str) -> str:
    """Two texts from a little before where they differ, such as "int -> float"."""
    pairs = enumerate(zip(old, new, strict=False))
    alike = next((at for at, (a, b) in pairs if a != b), min(len(old), len(new)))
    start = max(0, alike - _BEFORE)
    lead = "..." if start else ""
    before, after = (
        f"{lead}{one_line(text[start:], _SHORT)}" or "none" for text in (old, new)
    )
    return f"{before} -> {after}"


def crawl(
    site: Annotated[
        str | None,
        typer.Argument(help="The name of a site that crawlers/SITE.yaml describes."),
    ] = None,
    sphinx: Annotated[
        str | None,
        typer.Option("--sphinx", metavar="URL", help="The URL of any Sphinx site."),
    ] = None,
    base_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Read the site from this address instead of its own."
        ),
    ] = None,
    include: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Read only this object and its members; repeatable."
        ),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Exclude this name and its members; repeatable."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="The crawl's folder; crawls/SITE if not given."
        ),
    ] = None,
    contact: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Your email address or URL, sent to the site with each request.",
        ),
    ] = None,
    refresh: Annotated[
        bool,
        typer.Option("--refresh", help="Ask the site whether pages have changed."),
    ] = False,
    private_addresses: Annotated[
        bool,
        typer.Option(
            "--private-addresses",
            help="Allow a public host name that resolves to a private address.",
        ),
    ] = False,
    diff: Annotated[
        tuple[Path, Path] | None,
        typer.Option(
            metavar="OLD NEW",
            help="Compare the tools of two crawls, and fetch nothing.",
        ),
    ] = None,
) -> None:
    """Crawl the tools of a Sphinx site, or compare two crawls."""
    if diff is not None:
        others = (site, sphinx, base_url, include, exclude, out, contact)
        if any(others) or refresh or private_addresses:
            raise typer.BadParameter("--diff OLD NEW stands alone: it fetches nothing.")
        echo(compare_crawls(*diff))
        return
    if sphinx and (site or base_url):
        raise typer.BadParameter(
            "--sphinx URL reads a site by its inventory alone; give it without a site's name "
            "and --base-url."
        )
    if not (site or sphinx):
        raise typer.BadParameter("Give a site of crawlers/, or --sphinx URL.")

    crawled = crawl_to_folder(
        out,
        site=site,
        base_url=sphinx or base_url,
        include=include or (),
        exclude=exclude or (),
        contact=contact,
        refresh=refresh,
        private_addresses=private_addresses,
    )
    echo(crawled.describe())
    for problem in crawled.problems:
        complain(problem)
    if crawled.crawl.may_pass:
        raise ToolbankError(
            "the crawl is not complete. The same command asks for what is missing."
        )
