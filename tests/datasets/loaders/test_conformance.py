"""Every dataset format does what all formats have to do."""

import csv
from pathlib import Path
from typing import Literal

import pytest

from tests.datasets.loaders.samples import config, make
from toolbank.bank.bank import SkipCounter
from toolbank.bank.function_reader import describe_tool
from toolbank.bank.records import Query
from toolbank.datasets import DATASETS
from toolbank.datasets.gather import Dataset, gather
from toolbank.datasets.kind import DatasetConfig, DatasetKind
from toolbank.testing.datasets import CHECKS, DatasetCase

EVERY_CHECK = pytest.mark.parametrize("check", CHECKS, ids=lambda one: one.__name__)


@EVERY_CHECK
# What lies on a hub is in no folder: `published` reads it, and tests/publish/ downloads it.
@pytest.mark.parametrize("name", [name for name in DATASETS.own if name != "hub"])
def test_own_formats(name, check, tmp_path):
    make(name, tmp_path)
    check(DatasetCase(DATASETS.load(name), config(name, tmp_path)))


class TableConfig(DatasetConfig):
    type: Literal["table"]


def read_tables(config: TableConfig) -> Dataset:
    tools = [describe_tool(*row) for row in rows(config, "tools")]
    queries = (
        Query(id=name, query=text, tools=tuple(used.split()), split=split)
        for name, text, used, split in rows(config, "queries")
    )
    return gather(tools, queries, SkipCounter())


def rows(config, name):
    text = (config.path / f"{name}.csv").read_text()
    return list(csv.reader(text.splitlines()))


def list_files(config: TableConfig) -> tuple[Path, ...]:
    return config.path / "tools.csv", config.path / "queries.csv"


def table_case(folder, **changed):
    (folder / "tools.csv").write_text("sum,Adds up.\nmax,Finds the largest.\n")
    (folder / "queries.csv").write_text("1,add,sum,train\n2,both,sum max,test\n")
    kind = {"config": TableConfig, "load": read_tables, "files": list_files, **changed}
    return DatasetCase(DatasetKind(**kind), TableConfig(type="table", path=folder))


def run_all(case):
    for check in CHECKS:
        check(case)


def test_a_format_that_raises_what_it_likes_is_found_out(tmp_path):
    with pytest.raises(AssertionError, match="a broken file is an InputError"):
        run_all(table_case(tmp_path))


def test_a_file_that_is_read_and_not_listed_is_found_out(tmp_path):
    def read(config):
        dataset = read_tables(config)
        more = config.path / "more.csv"
        extra = [describe_tool(more.read_text(), "")] if more.is_file() else []
        return gather((*dataset.tools, *extra), dataset.queries, SkipCounter())

    (tmp_path / "more.csv").write_text("another")
    with pytest.raises(AssertionError, match="not listed are read"):
        run_all(table_case(tmp_path, load=read))
