"""What came of a crawl, in figures and in words."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any
from urllib.parse import urljoin

from toolbank.bank.records import Tool
from toolbank.sources.sphinx.harvest import Harvest
from toolbank.sources.sphinx.inventory import Scope, tool_name
from toolbank.sources.sphinx.site import names
from toolbank.sources.sphinx.tools import is_loss
from toolbank.system.errors import InputError, ToolbankError

_NAMED_PAGES = 3


@dataclass(frozen=True)
class CrawlResult:
    """Tools sorted by name, with their prompt names, and what became of everything else.

    `info` has the counts for bank.json: `objects` = `tools` + `aliases` + the sum of `skipped`;
    `record` is the content of crawl.json: the same with every object and page by its name. Both
    are the same for the same pages. `pages` were read in `seconds`, `from_cache` of them without
    asking the site. `problems` are lines on what was lost. Not `complete`: another crawl may get
    pages that this one could not. `rules` is the text of a crawlers/<site>.yaml that takes what
    this crawl took; `guessed` says that there was none before.
    """

    tools: list[Tool]
    info: dict[str, Any]
    record: dict[str, Any]
    rules: str
    guessed: bool
    pages: int
    from_cache: int
    stale: int
    requests: int
    seconds: float
    problems: tuple[str, ...] = ()
    complete: bool = True

    def summary(self) -> str:
        """What a person wants to know of the crawl, in a few lines."""
        info = self.info
        rate = f", {self.pages / self.seconds:.0f} a second" if self.pages > 1 else ""
        skipped = sorted(info["skipped"].items(), key=lambda item: -item[1])
        lines = [
            f"{info['project']} {info['version']}: {_many(self.pages, 'page')} in "
            f"{self.seconds:.1f} s{rate}; {self.from_cache:,} from the cache, "
            f"{_many(self.requests, 'request')} sent",
            f"{_many(info['objects'], 'object')} in the inventory: "
            f"{_many(info['tools'], 'tool')}, {_many(info['aliases'], 'other name')} of "
            f"them{', and left out:' if skipped else ''}",
            *(f"  {count:8,}  {reason}" for reason, count in skipped),
        ]
        if wordless := info["without_summary"]:
            lines.append(f"{_many(wordless, 'tool')} without a summary on the page.")
        return "\n".join(lines)


def problems(
    label: str, base_url: str, harvest: Harvest, info: Mapping[str, Any]
) -> Iterator[str]:
    """A line on each rule that fits nothing, each reason that pages failed for, and what was lost."""
    if harvest.scope is not None:
        yield from (f"{label}: {told}" for told in _idle_rules(harvest.scope))
    if harvest.limit:
        yield (
            f"{label}: the crawl ended early ({harvest.limit}). Run the command again to go "
            "on; what was read is kept."
        )
    if harvest.stale:
        yield (
            f"{label}: {_many(len(harvest.stale), 'page')} could not be checked, and read as "
            "kept"
        )
    failed: dict[str, list[str]] = {}
    for path, reason in sorted(harvest.failed.items()):
        failed.setdefault(reason, []).append(urljoin(base_url, path))
    for reason, urls in sorted(failed.items()):
        more = ", ..." if len(urls) > _NAMED_PAGES else ""
        yield (
            f"{label}: {_many(len(urls), 'page')} failed ({reason}): "
            f"{', '.join(urls[:_NAMED_PAGES])}{more}"
        )
    lost = {reason: n for reason, n in info["skipped"].items() if is_loss(reason)}
    if lost:
        total = sum(lost.values())
        were = "was" if total == 1 else "were"
        yield f"{label}: {_many(total, 'object')} {were} not found ({_counted(lost)})"


def no_tools(
    base_url: str, harvest: Harvest, info: Mapping[str, Any], told: Sequence[str]
) -> ToolbankError:
    """Why a crawl brought nothing home, and what to do; `told` are its problems."""
    if harvest.may_pass:
        return ToolbankError(
            "\n".join(
                [
                    f"{base_url}: no tool was read. Run the command again to go on; pages that "
                    "were read are kept.",
                    *told,
                ]
            )
        )
    nothing = (
        f"{base_url}: no object of its inventory became a tool "
        f"({_counted(info['skipped'])})."
    )
    scope = harvest.scope
    if told and (harvest.failed or scope is None or not scope.entries):
        return InputError("\n".join([nothing, *told]))
    if scope is not None and scope.entries and not scope.site.tables:
        return InputError(
            f"{nothing} Its pages don't show them as Sphinx does; was the site made by another "
            "program?"
        )
    return InputError(
        f"{nothing} Check roles, parents, include, exclude, pages and tables of its rules."
    )


def _idle_rules(scope: Scope) -> Iterator[str]:
    """Names in the rules that the inventory has nothing of, with the nearest that it has."""
    rules = scope.site.objects
    own = [
        tool_name(item, scope.site)
        for item in scope.inventory.objects
        if item.domain == rules.domain
    ]
    parents = {name.rpartition(".")[0] for name in own}
    for rule in rules.include:
        if not any(names(name, (rule,)) for name in own):
            yield f"include: there is no {rule}{_near(rule, {*own, *parents})}"
    for rule in rules.parents:
        if rule not in parents:
            yield f"parents: there is no {rule}{_near(rule, parents)}"


def _near(name: str, known: Collection[str]) -> str:
    near = get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{what}: {count:,}" for what, count in counts.items()) or "none"
