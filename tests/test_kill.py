"""kill -9 of whole runs: what was paid for stays, and the bank comes out the same."""

import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from toolbank.journal import Journal

TOOLBANK = [str(Path(sys.executable).with_name("toolbank"))]
# Up to the bank and no further: so every kill falls where calls are made.
RULES = [
    *("--set", "generate.engine=rules", "--set", "generate.queries=3000"),
    *("--until", "judge"),
]


def run(out, *arguments, kill_after=None):
    command = [*TOOLBANK, "run", "quickstart", "--out", str(out), *arguments]
    begun = time.monotonic()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        try:
            _, told = child.communicate(timeout=kill_after)
        except subprocess.TimeoutExpired:
            os.kill(child.pid, signal.SIGKILL)
            child.communicate()
            return None
    assert child.returncode == 0, told
    return told, time.monotonic() - begun


def journaled(out):
    path = out / "journal.sqlite"
    if not path.exists():
        return 0
    with Journal(path) as journal:
        return len(journal)


def check_kills(tmp_path, arguments, kills):
    _, seconds = run(tmp_path / "whole", *arguments)
    expected = bank_of(tmp_path / "whole")
    assert len(expected) == 2
    total = journaled(tmp_path / "whole")
    moments = random.Random(0)
    killed = 0
    for number in range(3 * kills):
        out = tmp_path / f"killed-{number}"
        moment = moments.uniform(0.3, 0.9 * seconds)
        ended = run(out, *arguments, kill_after=moment)
        killed += ended is None
        before = journaled(out)
        finished = (out / "bank" / "bank.json").exists()
        told, again = run(out, *arguments)
        # The machine may have become faster; then kill earlier.
        seconds = min(seconds, ended[1] if ended else max(again, moment))
        assert bank_of(out) == expected
        assert journaled(out) == total
        asked = re.search(r"([\d,]+) repl(?:y|ies) asked for", told)
        if asked is not None:
            assert int(asked[1].replace(",", "")) == total - before
        else:
            assert finished
        if killed == kills:
            return
    pytest.fail(f"only {killed} runs could be killed before they ended")


def bank_of(out):
    return {path.name: path.read_bytes() for path in (out / "bank").glob("*.parquet")}


def test_a_killed_run_goes_on_to_the_same_bank_and_asks_nothing_twice(tmp_path):
    few = ["--set", "generate.engine=rules", "--set", "generate.queries=150"]
    check_kills(tmp_path, [*few, "--until", "judge"], kills=3)


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [[], RULES], ids=["quickstart", "rules-3000"])
def test_twenty_kills_at_random_moments_of_a_whole_run(tmp_path, arguments):
    check_kills(tmp_path, arguments, kills=20)
