"""The pages that a crawl fetched, made into tools."""

import hashlib
import json
import re
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urljoin

from toolbank.bank.records import Tool
from toolbank.sources.site import Site
from toolbank.sources.sphinx.inventory import InventoryEntry, InventoryObject, SiteScope
from toolbank.sources.sphinx.pages.page import PageObject


@dataclass
class Crawl:
    """A crawl: filled while it goes on, and read into `tools` at its end.

    `label` is what messages call the source, `base_url` where its pages were asked for; rules that
    are `guessed` were in no file before.

    `scope` is there once the inventory was read. `objects` and `listed`, what tables link to, go
    by (page, anchor); `failed` says why a page gave nothing, and `may_pass` holds those of which
    another try may give more; `pages` holds the bytes of those that were read, `from_cache` which
    of them were not sent anew, and `stale` which of these the site could not be asked about. So
    many `requests` were sent in so many `seconds`. `limit` says what ended the crawl early, if
    anything did.

    `tools` are sorted by name, without prompt names. Every object of the inventory is a tool,
    another name of one (`Tool.aliases`), or in `left_out`, by reason.
    """

    label: str
    base_url: str
    guessed: bool = False
    scope: SiteScope | None = None
    objects: dict[tuple[str, str], PageObject] = field(default_factory=dict)
    listed: set[tuple[str, str]] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)
    may_pass: set[str] = field(default_factory=set)
    pages: dict[str, int] = field(default_factory=dict)
    from_cache: set[str] = field(default_factory=set)
    stale: set[str] = field(default_factory=set)
    requests: int = 0
    seconds: float = 0.0
    limit: str = ""
    tools: list[Tool] = field(default_factory=list)
    left_out: dict[str, list[InventoryObject]] = field(default_factory=dict)

    @property
    def found(self) -> SiteScope:
        """The scope of a crawl that ended without error."""
        if self.scope is None:
            raise AssertionError("a crawl that ends without error has an inventory")
        return self.scope


_MEMBERS = frozenset(
    {
        "method",
        "classmethod",
        "staticmethod",
        "attribute",
        "property",
        "decoratormethod",
    }
)
_MIN_SAID = 250  # characters, of which some 150 are the form that the words are put in
_MAX_NAMES = 20
_NO_TABLE_READ = "in no table that could be read"
_NOT_THERE = "not on its page"
_PAGE_FAILED = "page failed: "

_Found = tuple[InventoryEntry, PageObject]


def read_tools(crawl: Crawl) -> tuple[list[Tool], dict[str, list[InventoryObject]]]:
    """The tools that a crawl brought in, sorted by name, and the objects left out, by reason.

    Objects that the pages say the same of are one tool with several names.
    """
    scope = crawl.found
    left_out = {reason: list(items) for reason, items in scope.left_out.items()}
    tables_lost = not crawl.failed.keys().isdisjoint(scope.table_pages)
    groups: dict[str, list[_Found]] = {}
    for place, entry in scope.entries.items():
        found = crawl.objects.get(place)
        if found and found.kind is None and scope.site.objects.constants:
            found = replace(found, kind="object")
        if found is None or found.kind is None:
            reason = _absence(scope.site, crawl, place, tables_lost)
            left_out.setdefault(reason, []).extend(entry.objects)
        else:
            groups.setdefault(_identity(entry, found), []).append((entry, found))
    inventory = scope.inventory
    source = f"sphinx:{inventory.project} {inventory.version}".strip()
    tools = [
        _tool(scope.site, source, cluster)
        for group in groups.values()
        for cluster in _parted(group)
    ]
    return sorted(tools, key=lambda tool: tool.name), dict(sorted(left_out.items()))


def is_loss(reason: str) -> bool:
    """Whether objects were skipped because they were not found, and not by a rule."""
    return reason in (_NO_TABLE_READ, _NOT_THERE) or reason.startswith(_PAGE_FAILED)


def _absence(
    site: Site, crawl: Crawl, place: tuple[str, str], tables_lost: bool
) -> str:
    """Why an object that fits the rules became no tool."""
    if place in crawl.objects:
        return "a constant"
    if site.tables and place not in crawl.listed:
        return _NO_TABLE_READ if tables_lost else "in no table"
    if place[0] in crawl.failed:
        reason = crawl.failed[place[0]].partition(",")[0]
        return _PAGE_FAILED + reason
    return _NOT_THERE


def _identity(entry: InventoryEntry, found: PageObject) -> str:
    """Alike for objects whose pages say the same, and enough that it can't be chance."""
    documented = found.documented
    said = json.dumps(
        [
            found.kind,
            found.signature,
            found.value,
            documented.summary,
            documented.description,
            [
                (item.name, item.classifier, item.description)
                for item in documented.parameters
            ],
            [item.model_dump() for item in documented.returns],
            documented.notes,
            documented.examples,
        ]
    )
    is_plain = not documented.examples and len(said) < _MIN_SAID
    if entry.role == "module" or is_plain:
        return entry.name
    return hashlib.sha256(said.encode()).hexdigest()


def _parted(group: list[_Found]) -> list[list[_Found]]:
    """The objects of a group that are one under several names.

    They have pages of their own, as one description may stand for several objects of a page. They
    share a module or class; or the last part of their names, where a module of a package hands on
    what another has. Members of two classes are two, whatever is said of them. What is said of
    many is a set phrase.
    """
    if len(group) > _MAX_NAMES:
        return [[member] for member in group]
    clusters: list[list[_Found]] = []
    for member in group:
        near = [
            cluster
            for cluster in clusters
            if any(_may_be_one(member[0], other) for other, _ in cluster)
            and all(member[0].page != other.page for other, _ in cluster)
        ]
        if near:
            near[0].append(member)
        else:
            clusters.append([member])
    return clusters


def _may_be_one(entry: InventoryEntry, other: InventoryEntry) -> bool:
    parent, _, last = entry.name.rpartition(".")
    other_parent, _, other_last = other.name.rpartition(".")
    if parent == other_parent:
        return True
    is_handed_on = parent.split(".")[0] == other_parent.split(".")[0]
    return entry.role not in _MEMBERS and last == other_last and is_handed_on


def _tool(site: Site, source: str, group: list[_Found]) -> Tool:
    """One tool of objects that are one; the name in the outermost module leads."""
    group = sorted(group, key=lambda member: _rank(*member))
    entry, found = group[0]
    if found.kind is None:
        raise AssertionError("constants are no tools")
    names = {name for other, _ in group for name in (other.name, *other.aliases)}
    variants = found.signature.splitlines()
    tool = found.documented.as_tool(
        entry.name,
        found.kind,
        "\n".join(f"{entry.name}{variant}" for variant in variants),
        found.documented.parameters,
        source,
    )
    return tool.model_copy(
        update={
            "url": urljoin(site.base_url, f"{entry.page}#{entry.anchor}"),
            "aliases": tuple(sorted(names - {entry.name})),
        }
    )


def _rank(entry: InventoryEntry, found: PageObject) -> tuple[Any, ...]:
    """Outermost first; then the name in the value (<ufunc 'absolute'>), or else the examples."""
    last = entry.name.rpartition(".")[2]
    uses = len(re.findall(rf"\b{re.escape(last)}\b", found.documented.examples))
    return (entry.name.count("."), f"'{last}'" not in found.value, -uses, entry.name)
