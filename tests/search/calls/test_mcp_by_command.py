"""Calls to an MCP server that is started: what it may say, and how long it may take."""

import asyncio
import sys
from pathlib import Path

import pytest

from toolbank.search.calls import CallError, Target, mcp
from toolbank.search.calls.mcp import send_to_mcp

WEATHER = Path(__file__).with_name("weather_server.py")
FLOOD = """
import sys
try:
    while True:
        sys.stdout.write("x" * 65536)
except OSError:
    pass
"""
SILENT = "import sys; sys.stdin.read()"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ((sys.executable, "-c", FLOOD), "aborted: one message is over"),
        ((sys.executable, "-c", SILENT), r"did not answer in 2 s"),
        (("/no/such/program",), "started: No such file"),
    ],
)
def test_a_server_that_does_not_answer_is_given_up(monkeypatch, command, said):
    monkeypatch.setattr(mcp, "CALL_TIME", 2)
    with pytest.raises(CallError, match=said):
        asyncio.run(send_to_mcp("forecast", {}, Target(command=command)))


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
