"""The grades of a run: whatever is done with it, none disappears."""

import json
import shutil
from collections import Counter

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.commands.in_process import toolbank
from tests.servers.chat import Answer, ChatServer
from tests.verify.test_verify import shown
from toolbank.bank.labels import group_labels, read_labels
from toolbank.system.files import read_json

TOOLS = [f"shop.{verb}_{noun}" for verb in ("find", "list") for noun in ("ink", "tea")]
SPLITS = ["train", "train", "validation", "test", "test", "test"]
IDS = [f"q{number}" for number in range(len(SPLITS))]


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def line(query, *needed):
    if not needed:
        return {"query": query, "aside": "It has two readings."}
    return {"query": query, "needed": [{"tool": tool, "why": "so"} for tool in needed]}


def by_model(call):
    """Each model needs a tool of its own, and can't grade every request."""
    tools = sorted(shown(call)[1])
    place = {"one": 0, "two": -1}[call.body["model"]]
    if len(shown(call)[0]) % 3 == place % 3:
        return Answer.json({"needed": [{"tool": "shop.burn", "why": ""}], "aside": ""})
    needed = [{"tool": tools[place], "why": ""}]
    return Answer.json({"needed": needed, "alternatives": [], "aside": ""})


@pytest.fixture(scope="module")
def server():
    with ChatServer(by_model) as server:
        yield server


@pytest.fixture(scope="module")
def base(tmp_path_factory, server):
    """A folder with a dataset, a recipe, and its run, verified once by the model `one`."""
    folder = tmp_path_factory.mktemp("graded")
    (folder / "data").mkdir()
    tools = [
        {"name": n, "description": f"{n[5:].title()} of a customer."} for n in TOOLS
    ]
    write_lines(folder / "data" / "tools.jsonl", tools)
    queries = [
        {
            "id": IDS[n],
            "query": f"Please{'!' * n} see to the {TOOLS[n % 4][5:]} of customer {n}.",
            "tools": [TOOLS[n % 4]],
            "split": split,
        }
        for n, split in enumerate(SPLITS)
    ]
    write_lines(folder / "data" / "queries.jsonl", queries)
    write_lines(folder / "other.jsonl", [{"query": f"other {n}"} for n in range(3)])
    (folder / "mine.yaml").write_text(
        "name: mine\ndataset: {type: jsonl, path: data}\nbaselines: false\n"
        "retrievers: [{type: bm25}]\njudge: {against: other.jsonl}\n"
    )
    assert toolbank("run", "mine.yaml", cwd=folder).returncode == 0
    Steps(folder, server).model("one", 4)
    return folder


class Steps:
    """What a user does to a run, and every grade that was given by it."""

    def __init__(self, folder, server):
        self.folder = folder
        self.server = server
        self.given = Counter()
        self.last = {}

    @property
    def run(self):
        return self.folder / "runs" / "mine"

    def do(self, *arguments, code=0):
        done = toolbank(*arguments, cwd=self.folder)
        assert done.returncode == code, done.stderr
        return done

    def verify(self, **keys):
        sets = [f"verify.{key}={value}" for key, value in keys.items()]
        command = [part for one in sets for part in ("--set", one)]
        return self.do("verify", "runs/mine", *command)

    def model(self, name, candidates):
        self.verify(
            engine="openai",
            base_url=self.server.url,
            model=name,
            candidates=candidates,
        )
        self.note(stored(self.run), "model", name)

    def person(self, name, grades):
        rows = [line(query, *tools) for query, tools in grades.items()]
        write_lines(self.folder / name, rows)
        self.verify(engine="recorded", replies=name, grader="person")
        for query, tools in grades.items():
            self.given["person", name, query, tuple(sorted(tools))] |= 1
            self.last["person", query] = tools
        (self.folder / name).unlink()

    def note(self, rows, kind, source):
        """Take what a model has just said as given: it comes from the server, not from here."""
        for (a_kind, a_source, query, tools), when in rows.items():
            if (a_kind, a_source) == (kind, source):
                self.given[kind, source, query, tools] |= 1
                others = [
                    t for (k, _, q, _), t in rows.items() if (k, q) == (kind, query)
                ]
                if when == max(others):
                    self.last[kind, query] = tools

    def check(self):
        """Every grade is stored, and the labels are people's, or else a model's last ones."""
        assert set(self.given) <= set(stored(self.run))
        merged = group_labels(read_labels(self.run / "bank" / "labels.parquet"))
        for query in IDS:
            expected = self.last.get(("person", query), self.last.get(("model", query)))
            found = merged.get(query)
            assert (found and sorted(found.needed)) == (
                None if expected is None else sorted(expected)
            )


def stored(run):
    """When each grade was given, by kind, source, request and needed tools."""
    rows = pl.read_parquet(run / "verify" / "grades.parquet")
    keys = ["kind", "source", "query", "given", "candidates"]
    needed = pl.col("tool").filter(pl.col("grade") == "needed").sort()
    grouped = rows.group_by(keys).agg(needed)
    return {
        (kind, source, query, tuple(tools)): given
        for kind, source, query, given, _, tools in sorted(
            grouped.iter_rows(), key=lambda row: row[3]
        )
    }


GRADES = st.dictionaries(
    st.sampled_from(IDS),
    st.lists(st.sampled_from(TOOLS), max_size=2, unique=True),
    min_size=1,
    max_size=3,
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("person"), st.sampled_from(("ann", "bob")), GRADES),
        st.tuples(
            st.just("model"), st.sampled_from(("one", "two")), st.sampled_from((4, 1))
        ),
        st.just(("do", "run", "mine.yaml", "--until", "verify")),
        st.just(
            ("do", "run", "mine.yaml", "--set", "retrievers=[{type: bm25, requests: true}]")
        ),
        st.just(("do", "judge", "runs/mine")),
        st.just(("do", "judge", "runs/mine", "--against", "data")),
        st.just(("do", "publish", "runs/mine", "--to", "published")),
        st.just(("do", "verify", "runs/mine", "--set", "verify=null")),
    ),
    min_size=1,
    max_size=6,
)


def play(base, server, tmp_path_factory, steps):
    folder = tmp_path_factory.mktemp("played")
    shutil.copytree(base, folder, dirs_exist_ok=True)
    user = Steps(folder, server)
    user.note(stored(user.run), "model", "one")
    judged = set()
    for name, *arguments in steps:
        getattr(user, name)(*arguments)
        user.check()
        last = read_json(user.run / "judge.json")
        now = {one["against"] for one in (last, *last.get("others", ()))}
        assert judged <= now
        judged |= now


@given(steps=STEPS)
@settings(
    max_examples=5,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_no_sequence_of_commands_makes_a_grade_disappear(
    base, server, tmp_path_factory, steps
):
    play(base, server, tmp_path_factory, steps)


@pytest.mark.slow
@given(steps=STEPS)
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_no_long_list_of_sequences_makes_a_grade_disappear(
    base, server, tmp_path_factory, steps
):
    play(base, server, tmp_path_factory, steps)
