"""What a crawl brought in, made tools."""

import json
import re
from collections import Counter
from typing import Any
from urllib.parse import urljoin

from toolbank.bank import Tool
from toolbank.sources.schema import parameters_schema
from toolbank.sources.sphinx.harvest import Harvest
from toolbank.sources.sphinx.inventory import Entry
from toolbank.sources.sphinx.page import PageObject
from toolbank.sources.sphinx.site import Site

_NAMED_FAILURES = 20
_NO_TABLE_READ = "in no table that could be read"
_NOT_THERE = "not on its page"
_PAGE_FAILED = "page failed: "


def tools_of(site: Site, harvest: Harvest) -> tuple[list[Tool], dict[str, Any]]:
    """Tools sorted by name, and the counts of the crawl.

    Objects that the pages say the same of are one tool. Every object of the inventory is a tool,
    another name of one, or skipped for a reason.
    """
    inventory = harvest.inventory
    if inventory is None:
        raise AssertionError("a crawl that ends without error has an inventory")
    source = f"sphinx:{inventory.project} {inventory.version}"
    skipped = Counter(inventory.skipped)
    tables_lost = not harvest.failed.keys().isdisjoint(inventory.table_pages)
    groups: dict[str, list[tuple[Entry, PageObject]]] = {}
    for place, entry in inventory.entries.items():
        found = harvest.objects.get(place)
        if found is None or found.kind is None:
            reason = _absence(site, harvest, place, tables_lost)
            skipped[reason] += 1 + len(entry.aliases)
        else:
            groups.setdefault(_identity(entry, found), []).append((entry, found))
    tools = [_tool(site, source, group) for group in groups.values()]
    tools.sort(key=lambda tool: tool.name)
    failed = sorted(harvest.failed.items())
    info = {
        "project": inventory.project,
        "version": inventory.version,
        "pages": len(harvest.pages),
        "bytes": sum(harvest.pages.values()),
        "objects": inventory.total,
        "tools": len(tools),
        "aliases": sum(len(tool.aliases) for tool in tools),
        "skipped": dict(sorted(skipped.items())),
        "failed": len(failed),
        "failed_pages": dict(failed[:_NAMED_FAILURES]),
    }
    return tools, info


def is_loss(reason: str) -> bool:
    """Whether objects were skipped because they were not found, and not by a rule."""
    return reason in (_NO_TABLE_READ, _NOT_THERE) or reason.startswith(_PAGE_FAILED)


def _absence(
    site: Site, harvest: Harvest, place: tuple[str, str], tables_lost: bool
) -> str:
    """Why an object that fits the rules became no tool."""
    if place in harvest.objects:
        return "a constant"
    if site.tables and place not in harvest.listed:
        return _NO_TABLE_READ if tables_lost else "in no table"
    if place[0] in harvest.failed:
        reason = harvest.failed[place[0]].partition(",")[0]
        return _PAGE_FAILED + reason
    return _NOT_THERE


def _identity(entry: Entry, found: PageObject) -> str:
    """Alike for objects that the pages say the same of; an object without words is its own."""
    documented = found.documented
    if not documented.summary or entry.role == "module":
        return entry.name
    words = [
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
    return json.dumps(words)


def _tool(site: Site, source: str, group: list[tuple[Entry, PageObject]]) -> Tool:
    """One tool of the objects in a group; the name in the outermost module leads."""
    group = sorted(group, key=lambda member: _rank(*member))
    entry, found = group[0]
    if found.kind is None:
        raise AssertionError("constants are no tools")
    names = {name for other, _ in group for name in (other.name, *other.aliases)}
    documented = found.documented
    return Tool(
        name=entry.name,
        kind=found.kind,
        summary=documented.summary,
        description=documented.description,
        signature=f"{entry.name}{found.signature}" if found.signature else "",
        parameters=parameters_schema(documented.parameters),
        returns=documented.returns,
        examples=documented.examples,
        notes=documented.notes,
        see_also=documented.see_also,
        deprecated=documented.deprecated,
        url=urljoin(site.base_url, f"{entry.page}#{entry.anchor}"),
        source=source,
        aliases=tuple(sorted(names - {entry.name})),
    )


def _rank(entry: Entry, found: PageObject) -> tuple[Any, ...]:
    """Outermost first; then the name in the value (<ufunc 'absolute'>), or else the examples."""
    last = entry.name.rpartition(".")[2]
    uses = len(re.findall(rf"\b{re.escape(last)}\b", found.documented.examples))
    return (entry.name.count("."), f"'{last}'" not in found.value, -uses, entry.name)
