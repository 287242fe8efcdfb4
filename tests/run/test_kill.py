"""kill -9 of whole runs, and full disks: what was paid for stays, and the bank comes out the same."""

import json
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from tests.commands.in_process import sets
from tests.servers.kill import digest
from tests.small_disk import small_disk
from tests.world import write_recipe
from toolbank.llm.journal import Journal

ROOT = Path(__file__).parents[2]
TOOLBANK = [str(Path(sys.executable).with_name("toolbank"))]


@dataclass
class Work:
    """One kind of run: its recipe with changes, and what came out of it undisturbed."""

    folder: Path
    settings: list[str]
    log: Path | None = None
    expected: dict[str, object] = field(default_factory=dict)
    seconds: float = 10

    def run(self, out, kill_after=None):
        """What it said on standard error, or None where it was killed."""
        recipe = self.folder / "mine.yaml"
        command = [*TOOLBANK, "run", recipe, "--out", out, *sets(*self.settings)]
        with subprocess.Popen(
            [*map(str, command), "--until", "judge"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as child:
            try:
                _, told = child.communicate(timeout=kill_after)
            except subprocess.TimeoutExpired:
                child.kill()
                child.communicate()
                return None
        assert "Traceback" not in told
        return child.returncode, told

    def asked(self):
        """The digests of all requests that the endpoint got, in their order."""
        return self.log.read_text().split() if self.log else []


def result_of(out):
    infos = [out / name for name in ("bank/bank.json", "bank/asks.json", "judge.json")]
    told = {path.name: read_info(path) for path in infos if path.exists()}
    files = (out / "bank").glob("*.parquet")
    return told | tokens_of(out) | {path.name: path.read_bytes() for path in files}


def tokens_of(out):
    """The tokens of each reply; those of failed tries differ from run to run."""
    with Journal(out / "journal.sqlite") as journal:
        replies = {entry.key: entry.reply for entry in journal.entries()}
    return {
        key: (one.prompt_tokens, one.completion_tokens) for key, one in replies.items()
    }


def read_info(path):
    """What was told of a stage. Of its calls, how many replies: tries that failed count, too."""
    info = json.loads(path.read_text())
    info["calls"] = {name: calls["replies"] for name, calls in info["calls"].items()}
    return info


def journaled(out):
    if not (out / "journal.sqlite").exists():
        return set()
    with Journal(out / "journal.sqlite") as journal:
        return {digest(entry.messages) for entry in journal.entries()}


@contextmanager
def endpoint(folder):
    """The URL of an endpoint with faults, and the log of its requests."""
    log = folder / "requests.log"
    with subprocess.Popen(
        [sys.executable, "-m", "tests.servers.kill", str(log)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            yield server.stdout.readline().strip(), log
        finally:
            server.kill()


BY_RULES = ["generate.engine=rules"]
BY_MODEL = ["generate.engine=openai", "generate.model=writer"]
ASKS = ["asks.model=asker", "asks.concurrency=4", "asks.per_tool=8"]
KINDS = {
    "rules": BY_RULES,
    "endpoint": BY_MODEL,
    "two-engines": [*BY_MODEL, "judge.engine=openai", "judge.model=judge"],
    "asks": [*BY_RULES, *ASKS],
}


@pytest.fixture(scope="module")
def works(tmp_path_factory):
    """Makes a kind of work, and what it gives where nobody disturbs it."""
    made = {}
    folder = tmp_path_factory.mktemp("kill")
    write_recipe(folder, concurrency=12)
    with endpoint(folder) as (url, log):

        def make(kind, queries):
            if (kind, queries) in made:
                return made[kind, queries]
            stages = ("generate", "judge", *(["asks"] if kind == "asks" else []))
            settings = [*KINDS[kind], *(f"{stage}.base_url={url}" for stage in stages)]
            settings += [f"generate.queries={queries}", "judge.pairs=12"]
            work = Work(folder, settings, None if kind == "rules" else log)
            out = folder / f"whole-{kind}-{queries}"
            begun = time.monotonic()
            code, told = work.run(out)
            work.seconds = time.monotonic() - begun
            assert code == 0, told
            work.expected = result_of(out)
            made[kind, queries] = work
            return work

        yield make


def kill_until(work, folder, kills, random):
    """Kill runs at random moments, each again and again until it ends, so many times in all."""
    number = killed = 0
    while killed < kills:
        out = folder / f"killed-{number}"
        number += 1
        ended = None
        while ended is None:
            before, known = len(work.asked()), journaled(out)
            moment = random.uniform(0.5, work.seconds) if killed < kills else None
            ended = work.run(out, kill_after=moment)
            killed += ended is None
            assert known <= journaled(out)
            assert known.isdisjoint(work.asked()[before:])
        assert ended[0] == 0, ended[1]
        assert result_of(out) == work.expected
        shutil.rmtree(out)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "queries", "kills"),
    [
        *(("asks", 40, 2), ("rules", 40, 2), ("two-engines", 40, 2)),
        *(("rules", 150, 30), ("endpoint", 150, 30), ("asks", 150, 20)),
        ("two-engines", 150, 40),
    ],
)
def test_a_killed_run_comes_to_the_same_bank(works, tmp_path, kind, queries, kills):
    kill_until(works(kind, queries), tmp_path, kills, random=Random(queries))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("queries", "size"),
    [(40, 250), *((150, n) for n in (40, 60, 100, 130, 160, 200, 250, 300, 350, 400))],
)
def test_a_run_survives_a_full_disk(works, tmp_path, queries, size):
    work, folder = works("two-engines", queries), tmp_path / "disk"
    with small_disk(folder, size) as enlarge:
        out = folder / "run"
        code, told = work.run(out)
        assert code == 1, told
        assert "ake room" in told
        assert "kept" in told
        enlarge()
        before, known = len(work.asked()), journaled(out)
        code, told = work.run(out)
        assert code == 0, told
        assert known.isdisjoint(work.asked()[before:])
        assert result_of(out) == work.expected
