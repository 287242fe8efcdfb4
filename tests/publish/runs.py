"""A small run, made without a stage of it: what a publication reads."""

import json
from dataclasses import replace

from toolbank.bank.bank import Bank, Label
from toolbank.bank.records import Ask, Provenance, Query, Tool
from toolbank.retrievers import create_retriever
from toolbank.run.folder import RunFolder
from toolbank.run.recipe import Recipe, dump_recipe

TOOLS = (
    Tool(
        name="shop.find order",
        summary='Find the "order" of a customer.',
        parameters={"type": "object", "properties": {"n": {"type": "integer"}}},
        aliases=("shop.get_order",),
    ),
    Tool(name="shop.total", summary="Total of an order."),
    Tool(name="shop.merge", summary="Merge orders."),
)
QUERIES = (
    Query(
        id="q 1",
        query="What did I\nspend?",
        draft="Total.",
        tools=("shop.find order", "shop.total"),
        explanation="One feeds the other.",
        domain="shop",
        split="test",
        provenance=Provenance(
            attempt=3, engine="recorded", model="m", prompt_hash="h", seed=0
        ),
    ),
    Query(id="2", query="Sum it up", tools=("shop.total",), split="test"),
    Query(id="3", query="Nonsense", tools=("shop.total",), split="test"),
    Query(id="4", query="Where is it", tools=("shop.get_order",), split="train"),
    Query(id="5", query="Put them together", tools=("shop.merge",), split="train"),
    Query(id="6", query="Of a tool that is gone", tools=("shop.gone",)),
)
LABELS = (
    Label(query="2", tool="shop.find order", grade="needed"),
    Label.alternative("2", "shop.merge", "shop.find order", "as good"),
    Label(query="3", grade="aside", reason="nonsense"),
    Label(query="4", tool="shop.find order", grade="needed"),
    Label(query="6", tool="shop.total", grade="needed"),
)
BANK = Bank(
    TOOLS,
    QUERIES,
    {"name": "shop", "seed": 0, "ordered": True},
    asks=(Ask(tool="shop.total", kind="terse", ask="add up"),),
)
RECIPE = {
    "name": "shop",
    "sources": [{"type": "python", "package": "statistics"}],
    "retrievers": [{"type": "bm25"}],
    "baselines": False,
}


def make_run(folder, *, bank=BANK, labelled=False, fitted=True, **recipe):
    """The folder of a run with this bank, and its recipe with these keys."""
    run = RunFolder(folder)
    replace(bank, labels=LABELS if labelled else ()).save(run.bank)
    settings = Recipe.model_validate({**RECIPE, **recipe})
    run.recipe.write_text(dump_recipe(settings))
    origin = {"name": "shop", "seed": 0, "recipe_sha256": ""}
    run.origin.write_text(json.dumps(origin))
    for config in settings.retrievers if fitted else ():
        retriever = create_retriever(config)
        retriever.fit(bank)
        retriever.save(run.models / config.label)
    return run
