"""Calls to an MCP server that is started: what it may say, and how long it may take."""

import asyncio
import sys
from pathlib import Path

import pytest

from toolbank.search.calls import CallError, Target, mcp
from toolbank.search.calls.mcp import send_to_mcp

WEATHER = Path(__file__).parents[1] / "serve/weather_server.py"
FLOOD = """
import sys
try:
    while True:
        sys.stdout.write("x" * 65536)
except OSError:
    pass
"""
SILENT = "import sys; sys.stdin.read()"


def call(*command):
    return asyncio.run(send_to_mcp("forecast", {}, Target(command=command)))


def test_a_line_without_end_is_given_up():
    with pytest.raises(CallError, match="aborted: one message is over"):
        call(sys.executable, "-c", FLOOD)


def test_a_server_that_never_answers_is_given_up(monkeypatch):
    monkeypatch.setattr(mcp, "CALL_TIME", 0.3)
    with pytest.raises(CallError, match=r"did not answer in 0\.3 s"):
        call(sys.executable, "-c", SILENT)


@pytest.mark.parametrize(
    ("variable", "value", "shown"),
    [
        ("WEATHER_KEY", "hunter2-hunter2", "***"),
        ("WEATHER_ZONE", "Pacific/Auckland", "Pacific/Auckland"),
    ],
)
def test_only_secrets_of_the_environment_are_hidden(
    monkeypatch, variable, value, shown
):
    monkeypatch.setenv(variable, value)
    target = Target(
        command=(sys.executable, str(WEATHER)), environment={"NAME": variable}
    )
    told = asyncio.run(send_to_mcp("forecast", {"city": "Oslo"}, target))
    assert told == f"Rain in Oslo, says {shown}."


def test_a_program_that_is_not_there_is_told():
    with pytest.raises(CallError, match="started: No such file"):
        call("/no/such/program")
