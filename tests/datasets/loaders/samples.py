"""A small dataset in each format: `published`, and those of others in tests/corpus/datasets."""

import shutil

from tests.corpus_files import CORPUS
from toolbank.bank.bank import Bank, Label
from toolbank.bank.records import Ask, Query, Tool
from toolbank.datasets import DATASETS
from toolbank.publish.data import write_data


def make(kind, folder):
    if kind == "published":
        make_published(folder)
    else:
        shutil.copytree(CORPUS / "datasets" / kind, folder, dirs_exist_ok=True)


def make_published(folder):
    bank = folder / "bank"
    tools = (Tool(name="a", summary="Does a.", aliases=("aa",)), Tool(name="b"))
    queries = (
        Query(id="1", query="do a", tools=("a",), split="train"),
        Query(id="2", query="do b", tools=("b", "aa"), split="test"),
    )
    asks = (Ask(tool="b", kind="terse", ask="b it"),)
    labels = (Label(query="2", tool="b", grade="needed"),)
    Bank(tools, queries, asks=asks, labels=labels).save(bank)
    write_data(bank, folder / "data")
    shutil.rmtree(bank)


def config(kind, folder, **more):
    if kind == "toolbank":
        more.setdefault("tools", folder / "tools.json")
    return DATASETS.load(kind).config(type=kind, path=folder, **more)
