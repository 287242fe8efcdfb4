"""Turn the objects of a crawl into tools."""

import builtins
import hashlib
import json
import re
from collections.abc import Set
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urljoin

from toolbank.bank.records import Tool
from toolbank.sources.site import Site
from toolbank.sources.sphinx.inventory import (
    Inventory,
    InventoryEntry,
    InventoryObject,
    SiteScope,
)
from toolbank.sources.sphinx.pages.page import PageObject


@dataclass
class Crawl:
    """The state of a crawl, and at its end the tools.

    Attributes:
        label: Name of the source in messages.
        base_url: Address at which the pages are requested.
        guessed: Whether the rules come from no file.
        scope: Objects that can be tools; None until the inventory is read.
        objects: Objects of pages, by (page, anchor).
        listed: Links of tables, as (page, anchor).
        failed: Reasons of pages that failed.
        may_pass: Failed pages that another attempt may read.
        pages: Bytes of the pages that were read.
        from_cache: Pages that came from the cache.
        stale: Cached pages that could not be revalidated.
        requests: Number of requests sent.
        seconds: Duration of the crawl.
        limit: What ended the crawl early, or "".
        tools: Tools sorted by name, without prompt names.
        left_out: Objects that are neither tools nor aliases, by reason.
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
        """The scope of a crawl whose inventory was read."""
        if self.scope is None:
            raise AssertionError("a crawl that ends without error has an inventory")
        return self.scope


_MEMBERS = frozenset(
    {"method", "classmethod", "staticmethod", "attribute", "property"}
    | {"decoratormethod"}
)
_MIN_SAID = 250  # characters of JSON, some 150 of which are its syntax
_MAX_NAMES = 20
_NO_TABLE_READ = "in no table that could be read"
_NOT_THERE = "not on its page"
_PAGE_FAILED = "page failed: "

_Found = tuple[InventoryEntry, PageObject]


def read_tools(crawl: Crawl) -> tuple[list[Tool], dict[str, list[InventoryObject]]]:
    """Return the tools of a crawl, sorted by name, and the skipped objects by reason.

    Objects with equal descriptions are one tool with several names.
    """
    scope = crawl.found
    left_out = {reason: list(items) for reason, items in scope.left_out.items()}
    tables_lost = not crawl.failed.keys().isdisjoint(scope.table_pages)
    groups: dict[str, list[_Found]] = {}
    bases = _class_names(scope.inventory)
    for place, entry in scope.entries.items():
        found = crawl.objects.get(place)
        if found is not None and found.kind == "class":
            found = _without_bases(found, bases)
        if found is None or (found.kind is None and not scope.site.objects.constants):
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


def _class_names(inventory: Inventory) -> set[str]:
    """The last names of the classes that a site documents, and those of Python itself."""
    listed = {
        item.name.rpartition(".")[2]
        for item in inventory.objects
        if item.domain == "py" and item.role in ("class", "exception")
    }
    own = {name for name, one in vars(builtins).items() if isinstance(one, type)}
    return {name for name in listed if name[:1].isupper()} | own - {"type"}


def _without_bases(found: PageObject, bases: Set[str]) -> PageObject:
    """A class without a signature, if that consists of undocumented names of classes."""
    parameters = found.documented.parameters
    is_bare = all(
        one.required and not (one.classifier or one.description) and one.name in bases
        for one in parameters
    )
    if not (parameters and is_bare):
        return found
    documented = replace(found.documented, parameters=())
    return replace(found, signature="", documented=documented)


def is_loss(reason: str) -> bool:
    """Whether a reason means that objects were not found, not that a rule excludes them."""
    return reason in (_NO_TABLE_READ, _NOT_THERE) or reason.startswith(_PAGE_FAILED)


def _absence(
    site: Site, crawl: Crawl, place: tuple[str, str], tables_lost: bool
) -> str:
    """The reason why an object that matches the rules is no tool."""
    if place in crawl.objects:
        return "a constant"
    if site.tables and place not in crawl.listed:
        return _NO_TABLE_READ if tables_lost else "in no table"
    if place[0] in crawl.failed:
        reason = crawl.failed[place[0]].partition(",")[0]
        return _PAGE_FAILED + reason
    return _NOT_THERE


def _identity(entry: InventoryEntry, found: PageObject) -> str:
    """A key that is equal for objects whose descriptions are equal and not trivial."""
    documented = found.documented
    said = json.dumps(
        [
            found.kind or "object",
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
    """Split objects of equal description into objects with several names.

    Names of one object are on different pages, and share a module or class, or the last part of
    the name if a module re-exports another's object. Members of different classes are different
    objects. A description that many objects share is a set phrase.
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
    is_reexport = parent.split(".")[0] == other_parent.split(".")[0]
    return entry.role not in _MEMBERS and last == other_last and is_reexport


def _tool(site: Site, source: str, group: list[_Found]) -> Tool:
    """One tool of one or more names; the name in the outermost module comes first."""
    group = sorted(group, key=lambda member: _rank(*member))
    entry, found = group[0]
    names = {name for other, _ in group for name in (other.name, *other.aliases)}
    variants = found.signature.splitlines()
    tool = found.documented.as_tool(
        entry.name,
        found.kind or "object",
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
    """Outermost first, then the name in the value (<ufunc 'absolute'>), then in examples."""
    last = entry.name.rpartition(".")[2]
    uses = len(re.findall(rf"\b{re.escape(last)}\b", found.documented.examples))
    return (entry.name.count("."), f"'{last}'" not in found.value, -uses, entry.name)
