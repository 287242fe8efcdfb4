"""The grades of a run: whatever is done with it, none disappears."""

import json
import re
import shutil
from collections import Counter

import datasets
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.commands.in_process import do, sets
from tests.requests.verify.test_verify import shown
from tests.servers.chat import Answer, ChatServer
from tests.world import files_under, write_dataset, write_dataset_recipe, write_lines
from toolbank.bank.bank import group_labels, read_labels
from toolbank.bank.frames import load_bank
from toolbank.datasets.published import PublishedConfig, read_published
from toolbank.system.files import read_json, sha256_file, write_json

TOOLS = [f"shop.{verb}_{noun}" for verb in ("find", "list") for noun in ("ink", "tea")]
SPLITS = ["train", "train", "validation", "test", "test", "test"]
PUBLISH = ("publish", "runs/mine", "--skip-stale")
IDS = [f"q{number}" for number in range(len(SPLITS))]


def describe_tools():
    return [
        {"name": n, "description": f"{n[5:].title()} of a customer."} for n in TOOLS
    ]


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
    queries = [
        {
            "id": IDS[n],
            "query": f"Please{'!' * n} see to the {TOOLS[n % 4][5:]} of customer {n}.",
            "tools": [TOOLS[n % 4]],
            "split": split,
        }
        for n, split in enumerate(SPLITS)
    ]
    write_dataset(folder / "data", describe_tools(), queries)
    write_lines(folder / "other.jsonl", [{"query": f"other {n}"} for n in range(3)])
    write_dataset_recipe(folder, "mine", judge={"against": "other.jsonl"})
    do(folder, "run", "mine.yaml")
    Steps(folder, server).model("one", 4)
    return folder


class Steps:
    """What a user does to a run, and every grade that was given by it."""

    def __init__(self, folder, server):
        self.folder = folder
        self.server = server
        self.given = Counter()
        self.last = {}
        self.people = {}

    @property
    def run(self):
        return self.folder / "runs" / "mine"

    def do(self, *arguments, code=0):
        return do(self.folder, *arguments, code=code)

    def verify(self, run="runs/mine", code=0, **keys):
        changes = sets(*(f"verify.{key}={value}" for key, value in keys.items()))
        return self.do("verify", run, *changes, code=code)

    def read_file(self, name, *rows, **more):
        write_lines(self.folder / name, rows)
        return self.verify(engine="recorded", replies=name, **more)

    def labels(self):
        return group_labels(read_labels(self.run / "bank" / "labels.parquet"))

    def model(self, name, candidates):
        url = self.server.url
        self.verify(engine="openai", base_url=url, model=name, candidates=candidates)
        self.note(stored(self.run), "model", name)

    def person(self, name, grades):
        rows = [line(query, *tools) for query, tools in grades.items()]
        self.read_file(name, *rows, grader="person")
        for query, tools in grades.items():
            self.given["person", name, query, tuple(sorted(tools))] |= 1
            self.people.setdefault(query, {})[name] = tools
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

    def expect(self, query):
        """The needed tools: what all people say, and else the model's or the first labels."""
        by_model = self.last.get(("model", query))
        people = [set(tools) for tools in self.people.get(query, {}).values()]
        if not people or (any(people) and not all(people)):
            return by_model
        first = [TOOLS[IDS.index(query) % 4]]
        stays = set(first if by_model is None else by_model)
        agreed = set.intersection(*people) | (set.union(*people) & stays)
        return agreed if agreed or not any(people) else by_model

    def check(self):
        """Every grade is stored, and the labels are people's, or else a model's last ones."""
        assert set(self.given) <= set(stored(self.run))
        merged = self.labels()
        for query in IDS:
            expected, found = self.expect(query), merged.get(query)
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


LEARNING = "retrievers=[{type: bm25, requests: true}]"
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
        st.just(("do", "run", "mine.yaml", *sets(LEARNING))),
        st.just(("do", "judge", "runs/mine")),
        st.just(("do", "judge", "runs/mine", "--against", "data")),
        st.just(("do", *PUBLISH, "--to", "published")),
        st.just(("do", "verify", "runs/mine", "--set", "verify=null")),
    ),
    min_size=1,
    max_size=6,
)


def copy_user(base, server, folder):
    shutil.copytree(base, folder, dirs_exist_ok=True)
    user = Steps(folder, server)
    user.note(stored(user.run), "model", "one")
    return user


def play(base, server, tmp_path_factory, steps):
    user = copy_user(base, server, tmp_path_factory.mktemp("played"))
    judged = set()
    for name, *arguments in steps:
        getattr(user, name)(*arguments)
        user.check()
        last = read_json(user.run / "judge.json")
        now = {one["against"] for one in (last, *last.get("others", ()))}
        assert judged <= now
        judged |= now


SLOW = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


@given(steps=STEPS)
@settings(max_examples=5, derandomize=True, suppress_health_check=SLOW)
def test_no_commands_lose_a_grade(base, server, tmp_path_factory, steps):
    play(base, server, tmp_path_factory, steps)


@pytest.mark.slow
@given(steps=STEPS)
@settings(max_examples=60, suppress_health_check=SLOW)
def test_no_sequences_of_commands_lose_a_grade(base, server, tmp_path_factory, steps):
    play(base, server, tmp_path_factory, steps)


@pytest.fixture
def user(base, server, tmp_path):
    return copy_user(base, server, tmp_path)


STRANGE = {"alternatives": [{"tool": TOOLS[1], "for": TOOLS[2]}]}
NEEDED = [{"tool": TOOLS[0], "why": "so"}]


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([line("q1", TOOLS[1]), line("q77", TOOLS[0])], "line 2: .*'q77'"),
        ([line("q0", TOOLS[1], "shop.burn")], "line 1: .*'shop.burn'"),
        ([line("q0", TOOLS[1]), {"query": "q1", "needed": "ink"}], "line 2: wrong"),
        ([{"query": "q1", "needed": [TOOLS[0]]}], "line 1: wrong"),
        ([line("q0", TOOLS[1]), line("q0", TOOLS[0])], "line 2: 'q0' .* line 1"),
        ([{"query": "q2", "need": NEEDED}], "line 1: unknown key 'need'.*needed"),
        ([{"query": "q2"}], "line 1: "),
        ([{"needed": NEEDED}], 'line 1: no "query"'),
        ([{"query": "q3", "needed": NEEDED, **STRANGE}], "line 1: stands-for-nothing"),
        ([], "no recorded replies"),
    ],
)
def test_a_wrong_file_of_grades_is_refused(user, rows, told):
    before = files_under(user.run)
    done = user.read_file("ann.jsonl", *rows, code=2)
    assert re.search(f"ann.jsonl.*{told}", done.stderr, re.DOTALL)
    changed = before.items() - files_under(user.run).items()
    assert {name for name, _ in changed} <= {".lock.owner"}


def test_a_person_may_name_a_tool_that_was_no_candidate(user):
    user.model("one", 1)
    rows = pl.read_parquet(user.run / "verify" / "candidates.parquet")
    key = pl.read_parquet(user.run / "verify" / "grades.parquet").filter(query="q1")
    offered = rows.filter(pl.col("key").is_in(key["candidates"].to_list()[-1:]))
    other = next(name for name in TOOLS if name not in offered["tool"].to_list())
    user.person("ann", {"q1": [other]})
    user.check()


def test_a_file_is_read_in_a_recipe_with_graders(user):
    url, graders = user.server.url, "[{model: one}, {model: two}]"
    user.verify(engine="openai", base_url=url, graders=graders)
    asked = len(user.server.calls)
    user.read_file("ann.jsonl", line("q0", TOOLS[0]))
    assert len(user.server.calls) == asked
    by = {(kind, source) for kind, source, *_ in stored(user.run)}
    assert by == {("model", "one"), ("model", "two"), ("person", "ann")}
    assert "two" in (user.run / "recipe.yaml").read_text()


def test_agreement_is_told_by_source(user):
    user.person("ann", {"q0": [TOOLS[0]], "q1": []})
    user.person("bob", {"q1": [TOOLS[3]]})
    found = read_json(user.run / "verify.json")
    graders = {(one["kind"], one["source"]): one for one in found["graders"]}
    models = sum(kind == "model" for kind, *_ in user.given)
    ann, bob = graders["person", "ann"], graders["person", "bob"]
    # They disagree on q1, which keeps what it had.
    assert (ann["requests"], ann["used"], bob["used"]) == (2, 1, 0)
    [row] = found["open"]
    assert row["query"] == "q1"
    assert row["votes"] == {"ann": "aside", "bob": TOOLS[3]}
    assert graders["model", "one"]["requests"] == models
    user.person("cid", {"q1": [TOOLS[3]]})
    assert f"needed: {TOOLS[3]}" in user.do("show", "runs/mine", "q1").stdout


def make_earlier(run):
    """Make a folder as version 0.7.0 left it: labels without sources, and no grades."""
    shutil.rmtree(run / "verify" / "files", ignore_errors=True)
    for name in ("grades.parquet", "grades.sha256"):
        (run / "verify" / name).unlink()
    recipe = run / "recipe.yaml"
    lines = recipe.read_text().splitlines(keepends=True)
    recipe.write_text("".join(one for one in lines if "  grader:" not in one))
    path = run / "bank" / "labels.parquet"
    pl.read_parquet(path).drop("kind", "source").write_parquet(path)
    found = read_json(run / "verify.json")
    for key in ("graders", "unused", "set_aside"):
        found.pop(key, None)
    write_json(run / "verify.json", found)
    stamps = read_json(run / "stages.json")
    for name in ("bank/labels.parquet", "verify.json"):
        stamps["verify"]["outputs"][name] = sha256_file(run / name)
    write_json(run / "stages.json", stamps)


def test_a_folder_of_0_7_0_keeps_its_grades_and_asks_for_none_again(user):
    make_earlier(user.run)
    asked = len(user.server.calls)
    user.person("bob", {"q0": [TOOLS[1]]})
    user.check()
    assert len(user.server.calls) == asked


@pytest.mark.parametrize("grader", ["", "model", "person"])
def test_grades_of_a_file_of_0_7_0_are_a_persons_by_default(user, grader):
    user.person("ann", {"q5": [TOOLS[2]], "q1": []})
    path = user.run / "bank" / "labels.parquet"
    pl.read_parquet(path).filter(kind="person").write_parquet(path)
    make_earlier(user.run)
    by = {"grader": grader} if grader else {}
    said = user.read_file("ann", line("q5", TOOLS[2]), line("q1"), **by).stderr
    assert ("verify.grader=model" in said) == (grader != "model")
    assert user.labels()["q5"].needed == [TOOLS[2]]
    user.read_file("bob", line("q5", TOOLS[3]), grader="person")
    kinds = {(name, kind) for kind, name, *_ in stored(user.run)}
    assert {("ann", grader or "person"), ("bob", "person")} == {
        one for one in kinds if one[0] in ("ann", "bob")
    }


def test_a_file_that_a_recipe_names_counts_as_one_of_several_people(user):
    recipe = user.folder / "mine.yaml"
    write_lines(user.folder / "ann", [line("q0", TOOLS[2]), line("q3", TOOLS[1])])
    recipe.write_text(
        f"{recipe.read_text()}verify: {{engine: recorded, replies: ann}}\n"
    )
    user.do("run", "mine.yaml")
    user.person("bob", {"q0": [TOOLS[3]]})
    user.person("cid", {"q0": [TOOLS[3]]})
    user.do("run", "mine.yaml")
    labels = user.labels()
    assert (labels["q0"].needed, labels["q3"].needed) == ([TOOLS[3]], [TOOLS[1]])


@pytest.mark.parametrize("is_earlier", [False, True])
def test_checks_still_count_in_a_recipe_without_verify(tmp_path, is_earlier):
    tools = describe_tools()
    tools[2]["description"] = f"Alias for {TOOLS[0]}."
    explained = (
        (1, "looks at tea"),
        (0, "sees to zzz"),
        (2, "finds ink"),
        (0, "lists ink"),
    )
    queries = [
        {"query": f"Do {n}", "tools": [TOOLS[at]], "explanation": f"It {why}."}
        | {"id": f"q{n}", "split": "train"}
        for n, (at, why) in enumerate(explained)
    ]
    write_dataset(tmp_path / "data", tools, queries)
    write_lines(tmp_path / "ann", [line("q3", TOOLS[3])])
    checks = {"engine": "recorded", "replies": "ann", "grader": "person"}
    checks["set_aside"] = ["unspoken"]
    write_dataset_recipe(tmp_path, "mine", verify=checks)
    user = Steps(tmp_path, None)
    user.do("verify", "mine.yaml")
    grouped, found = user.labels(), read_json(user.run / "verify.json")
    assert grouped["q1"].aside
    assert grouped["q2"].needed == [TOOLS[0]]
    if is_earlier:
        make_earlier(user.run)
    write_dataset_recipe(tmp_path, "mine")
    for _ in range(2):
        user.do("run", "mine.yaml", "--until", "verify")
        now = read_json(user.run / "verify.json")
        assert now["findings"] == found["findings"]
        assert now["candidates"] == found["candidates"]
        needed = {query: one.needed for query, one in user.labels().items()}
        assert needed == {query: one.needed for query, one in grouped.items()}
        user.do("export", "runs/mine", "--format", "toolbank", "--out", "out")
        rows = read_json(tmp_path / "out" / "train.json")
        assert "Do 1" not in [row["refined_instruction"] for row in rows]


def test_labels_of_an_earlier_state_are_neither_published_nor_exported(user):
    user.person("ann", {"q0": [TOOLS[1]], "q3": []})
    user.do("run", "runs/mine")
    user.do("publish", "runs/mine", "--to", "out")
    stamps = read_json(user.run / "stages.json")
    changed = {**stamps["verify"], "key": "of version 0.7.0"}
    write_json(user.run / "stages.json", {**stamps, "verify": changed})
    data = user.folder / "out" / "data"
    before = files_under(data)
    for words in (
        "publish runs/mine --to out",
        "export runs/mine --format datasets --out out-datasets",
        "export runs/mine --format toolbank --out out-toolbank",
    ):
        said = user.do(*words.split(), code=2).stderr
        assert "toolbank run runs/mine" in said
        assert "verified labels" in said
    user.do("run", "runs/mine")
    user.do("publish", "runs/mine", "--to", "out")
    assert files_under(data) == before


def test_a_published_folder_has_the_same_figures_again_and_its_labels_are_merged(user):
    user.person("ann", {"q0": [TOOLS[1]], "q3": [], "q4": [TOOLS[2], TOOLS[3]]})
    user.do("run", "runs/mine")
    user.do("publish", "runs/mine", "--to", "out")
    user.check()
    train = pl.read_parquet(user.folder / "out/data/train-*.parquet")
    [row] = train.filter(id="q0").iter_rows(named=True)
    assert (row["tools"], row["tools_first"]) == ([TOOLS[1]], [TOOLS[0]])
    shards = (user.folder / "out" / "data").glob("t[er]*-*.parquet")
    names = [one for path in shards for one in pl.read_parquet(path)["id"]]
    assert "q3" not in names and "q4" in names
    card = (user.folder / "out" / "README.md").read_text()
    assert "`tools_first`" in card and "1 set aside" in card
    dataset = {"type": "published", "path": "out"}
    write_dataset_recipe(user.folder, "again", dataset=dataset)
    user.do("run", "again.yaml")
    again = user.folder / "runs" / "again"
    for name in ("metrics.json", "validation.json"):
        assert read_json(again / name) == read_json(user.run / name)
    before = group_labels(read_labels(again / "bank" / "labels.parquet"))
    user.read_file("eve", line("q1", TOOLS[0]), run="runs/again")
    now = group_labels(read_labels(again / "bank" / "labels.parquet"))
    assert now.pop("q1").needed == [TOOLS[0]]
    before.pop("q1", None)
    assert now == before


def test_a_folder_that_0_7_0_published_is_read_as_it_was(user):
    user.do(*PUBLISH, "--to", "out")
    for path in (user.folder / "out" / "data").glob("*.parquet"):
        frame = pl.read_parquet(path)
        if "tools_first" in frame.columns:
            first = pl.col("tools_first").alias("tools")
            frame.with_columns(first).drop("tools_first").write_parquet(path)
        if path.name.startswith("labels"):
            frame.drop("kind", "source").write_parquet(path)
    found = read_published(PublishedConfig(type="published", path=user.folder / "out"))
    assert {one.id: list(one.tools) for one in found.queries} == {
        IDS[n]: [TOOLS[n % 4]] for n in range(len(IDS))
    }
    assert {one.query for one in found.labels} == {q for _, q in user.last}
    assert not found.left_out.describe()


def test_a_frame_and_an_export_have_merged_labels_and_the_first_ones(user):
    user.person("ann", {"q0": [TOOLS[1]], "q1": []})
    frames = load_bank(user.run)
    rows = {row["id"]: row for row in frames.queries.iter_rows(named=True)}
    assert (rows["q0"]["tools"], rows["q0"]["tools_first"]) == ([TOOLS[1]], [TOOLS[0]])
    assert rows["q1"]["aside"] == "It has two readings."
    assert set(frames.labels.filter(kind="person")["source"]) == {"ann"}
    out = {form: user.folder / form for form in ("datasets", "jsonl", "toolbank")}
    for form in out:
        user.do("export", "runs/mine", "--format", form, "--out", form)
    lines = map(json.loads, (out["jsonl"] / "queries.jsonl").open())
    for [row] in (
        list(datasets.load_from_disk(str(out["datasets"]))["train"]),
        [one for one in lines if one["split"] == "train"],
    ):
        assert row.get("functions", row.get("tools")) == [TOOLS[1]]
        assert row.get("functions_first", row.get("tools_first")) == [TOOLS[0]]
    [row] = read_json(out["toolbank"] / "train.json")
    assert row["functions"] == [TOOLS[1]]
    for form in ("datasets", "jsonl"):
        assert '"q1"' in (out[form] / "aside.jsonl").read_text()


def test_grades_that_were_edited_are_refused(user):
    path = user.run / "verify" / "grades.parquet"
    pl.read_parquet(path)[1:].write_parquet(path)
    done = user.read_file("ann", line("q1", TOOLS[0]), code=2)
    assert "grades.parquet" in done.stderr
    assert "Put it back" in done.stderr


def test_comparisons_of_a_judge_are_kept_and_shown(user):
    user.do("judge", "runs/mine", "--against", "data", "--pairs", "2")
    user.do("run", "mine.yaml")
    last = read_json(user.run / "judge.json")
    assert last["against"] == "other.jsonl"
    assert [(one["against"], one["n"]) for one in last["others"]] == [("data", 2)]
    page = (user.run / "report.html").read_text()
    assert "than data?" in page and "than other.jsonl?" in page
    user.do("judge", "runs/mine", "--against", "data", "--pairs", "2")
    assert len(read_json(user.run / "judge.json")["others"]) == 1
