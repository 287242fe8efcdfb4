"""crawl.json: what became of every object and page of a crawl."""

from typing import Any

from toolbank.sources.sphinx.harvest import Harvest
from toolbank.sources.sphinx.tools import Reading

_NAMED_FAILURES = 20


def describe(
    harvest: Harvest, reading: Reading
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Counts for bank.json, and the whole for crawl.json.

    In both, `objects` of the inventory = `tools` + `aliases` + all that is skipped or left out.
    Nothing in them tells of the time or of the cache: same pages, same bytes.
    """
    if harvest.scope is None:
        raise AssertionError("a crawl that ends without error has an inventory")
    scope, inventory = harvest.scope, harvest.scope.inventory
    failed = sorted(harvest.failed.items())
    counts = {
        "project": inventory.project,
        "version": inventory.version,
        "pages": len(harvest.pages),
        "bytes": sum(harvest.pages.values()),
        "objects": len(inventory.objects),
        "tools": len(reading.tools),
        "without_summary": sum(not tool.summary for tool in reading.tools),
        "aliases": sum(len(tool.aliases) for tool in reading.tools),
        "skipped": {reason: len(items) for reason, items in reading.left_out.items()},
        "failed": len(failed),
    }
    info = {**counts, "failed_pages": dict(failed[:_NAMED_FAILURES])}
    record = {
        **counts,
        "site": scope.site.model_dump(mode="json"),
        "failed_pages": dict(failed),
        "other_names": {
            tool.name: tool.aliases for tool in reading.tools if tool.aliases
        },
        "left_out": {
            reason: sorted(map(str, items))
            for reason, items in reading.left_out.items()
        },
    }
    return info, record
