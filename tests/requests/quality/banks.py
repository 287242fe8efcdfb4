"""Small banks to measure."""

from toolbank.bank.bank import Bank
from toolbank.bank.records import Ask, Query, Tool

TOOLS = (
    Tool(name="shop.find_order", summary="Find an order of a customer."),
    Tool(name="shop.sum", summary="Add up the prices."),
    Tool(name="shop.cancelOrder", summary="Cancel an order.", aliases=("shop.undo",)),
    Tool(name="shop.weigh", summary="Weigh a parcel."),
)


def bank(*rows, tools=TOOLS, asks=(), labels=(), drafts=()):
    """A bank of (text, tools) rows; `asks` are (tool, kind, text)."""
    drafts = [*drafts, *[""] * len(rows)]
    queries = tuple(
        Query(id=f"q{n}", query=text, tools=tuple(names), draft=drafts[n])
        for n, (text, names) in enumerate(rows)
    )
    asked = tuple(Ask(tool=tool, kind=kind, ask=text) for tool, kind, text in asks)
    return Bank(tools, queries, {}, asked, tuple(labels))
