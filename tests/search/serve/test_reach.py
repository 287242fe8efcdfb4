"""An agent sees in the search tool what the search reaches."""

import pytest

from tests.search.packed.packs import write_pack
from toolbank.bank.records import McpCall, Tool
from toolbank.search.finder import Finder

pytest.importorskip("mcp", reason="the extra mcp is not installed")

from toolbank.search.serve.mcp import describe_search
from toolbank.search.serve.reach import describe_reach


def make(server, number, summary="Does a thing that is told in one sentence"):
    call = McpCall(source=server, tool=f"tool_{number}")
    name = f"{server}/tool_{number}"
    return Tool(name=name, summary=f"{summary} {number}. More.", call=call)


def test_it_names_servers_counts_and_five_examples_of_different_servers():
    sizes = {"github": 5, "billing": 3, "shop": 1}
    tools = [make(name, n) for name, size in sizes.items() for n in range(size)]
    said = describe_reach(tools)
    assert "github (5), billing (3), shop (1)." in said
    examples = said.partition("do: ")[2].rstrip(".").split("; ")
    assert len(examples) == len(set(examples)) == 5


def test_tools_of_one_package_are_told_by_module():
    names = ("stats.mean", "stats.mode", "io.read")
    tools = [Tool(name=f"lib.{name}", source="python:lib") for name in names]
    assert describe_reach(tools) == "The tools are of lib.stats (2), lib.io (1)."


def test_it_is_short_whatever_the_tools_say(tmp_path):
    long = "x\u202e" * 5_000
    tools = [make(f"server{n}{long}", n, long) for n in range(100)]
    tools += [make(f"small{n}", n) for n in range(500)]
    write_pack(tmp_path, tools)
    assert len(describe_reach(tools)) < 650
    assert len(describe_search(Finder.open(tmp_path))) < 1_000
