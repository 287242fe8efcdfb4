"""A crawl alone: a site's tools in a folder of their own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import ValidationError

from toolbank.bank.files import write_tools
from toolbank.config.explain import explain
from toolbank.sources.sphinx.crawl import crawl_site, problems, summarize
from toolbank.sources.sphinx.guess import site_yaml
from toolbank.sources.sphinx.source import SphinxSource
from toolbank.sources.sphinx.tools import Crawl
from toolbank.sources.web.policy import CrawlPolicy
from toolbank.system.errors import InputError, Interrupted, ToolbankError
from toolbank.system.files import read_json, write_text
from toolbank.system.folders import (
    Files,
    FolderKind,
    claim_folder,
    hash_files,
    is_left,
    remove_files,
    set_aside,
    write_mark,
)
from toolbank.system.numbers import count
from toolbank.system.terminal import print_message

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
        return problems(self.crawl)

    def describe(self) -> str:
        """What came of the crawl, where it lies, and for a site without rules those it has now."""
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
    policy: dict[str, Any] = {
        "contact": contact or "",
        "private_addresses": private_addresses,
    }
    if refresh:
        policy["max_age_h"] = 0
    try:
        source = SphinxSource(
            site=site,
            base_url=base_url,
            include=tuple(include),
            exclude=tuple(exclude),
            crawl=CrawlPolicy.model_validate(policy),
        )
    except ValidationError as error:
        schema = SphinxSource.model_json_schema()
        raise InputError(explain(error, schema, "crawl", {}, ())) from error
    path = out or Path("crawls") / (site or _slug(source.base_url or ""))
    if path.suffix == ".parquet":
        raise InputError(
            f"{path}: a crawl is written to a folder. Give one, such as --out crawls/numpy."
        )
    left = claim_folder(path, CRAWL)
    rules = path / "rules.yaml"
    own = (path / "crawl.json", path / "tools.parquet", rules)
    if kept := set_aside(path, (p for p in own if not is_left(path, p.name, left))):
        print_message(f"{path}: what no crawl left there as it is, is in {kept}")
    try:
        crawl = crawl_site(source, path / "cache", path / "crawl.json")
    except KeyboardInterrupt as error:
        raise Interrupted(
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
