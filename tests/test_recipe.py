import json
import os
import re
from pathlib import Path

import pytest
import yaml

from tests.corpus_files import CORPUS
from toolbank.commands.schema import describe_keys
from toolbank.run.recipe import dump_recipe, load_recipe, place_replies, recipe_schema
from toolbank.system.errors import InputError

GOOD = """\
name: mine
sources:
  - type: python
    package: json
generate:
  engine: rules
"""


def write(tmp_path, text):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    return str(path)


def read(tmp_path, text, *settings):
    return load_recipe(write(tmp_path, text), settings).recipe


DATASET = "name: mine\ndataset: {type: jsonl, path: theirs, ordered: true}\n"


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        GOOD + "  temperature: null\njudge: {temperature: null}\n",
        GOOD + "  tools_per_query: {1: .25, 2: .35, 3: .25, 4: .15}\n",
        GOOD + "retrievers: [{type: tool2vec}]\n",
        DATASET,
        DATASET + "judge: {pairs: 3}\n",
    ],
)
def test_a_resolved_recipe_reads_back_to_the_same(tmp_path, text):
    recipe = read(tmp_path, text)
    assert read(tmp_path, dump_recipe(recipe)) == recipe
    assert (recipe.generate.temperature is None) == ("temperature" in text)
    unused = {"sources", "generate", "judge"} - (
        {"judge"} if "judge" in text else set()
    )
    assert (unused <= {*recipe.unused_keys}) == ("dataset" in text)
    assert recipe.generate.most_tools == (4 if "tools_per_query" in text else 5)


def test_a_resolved_recipe_takes_shares_and_lets_them_go(tmp_path):
    plain = read(tmp_path, GOOD)
    resolved = write(tmp_path, dump_recipe(plain))
    shared = load_recipe(resolved, ["generate.tools_per_query={1: 1, 3: 1}"]).recipe
    resolved = write(tmp_path, dump_recipe(shared))
    assert load_recipe(resolved, ["generate.tools_per_query=null"]).recipe == plain


def test_a_recipe_of_before_with_shares_and_their_numbers_is_read(tmp_path):
    text = GOOD + "  tools_per_query: {1: 1, 3: 1}\n  min_tools: 1\n  max_tools: 3\n"
    assert read(tmp_path, text).generate.most_tools == 3


@pytest.mark.parametrize("name", ["numpy", "pandas", "aws"])
def test_a_model_that_is_named_once_writes_requests_and_asks(name, tmp_path):
    url = "http://127.0.0.1:8000/v1"
    typed = [
        *(f"generate.base_url={url}", "generate.model=m"),
        "generate.price={input: 1, output: 2}",
    ]
    recipe = load_recipe(name, typed).recipe
    for part in (recipe.generate, recipe.asks):
        assert (part.engine, part.base_url, part.model) == ("openai", url, "m")
        assert part.price.output == 2
    resolved = write(tmp_path, dump_recipe(recipe))
    assert load_recipe(resolved).recipe == recipe
    other = load_recipe(name, [*typed, "asks.model=small"]).recipe
    assert (other.asks.model, other.asks.base_url) == ("small", url)


def test_asks_by_another_engine_take_nothing_of_that_of_the_requests(tmp_path):
    text = "  model: m\n  parameters: {top_p: 0.9}\nasks: {engine: rules}\n"
    text = GOOD.replace("engine: rules", "engine: openai") + text
    asks = load_recipe(write(tmp_path, text)).recipe.asks
    assert (asks.engine, asks.model, asks.parameters) == ("rules", "", {})


def test_relative_paths_start_at_the_recipe_or_here(tmp_path, monkeypatch):
    (tmp_path / "asked.jsonl").touch()
    here = tmp_path / "elsewhere"
    here.mkdir()
    (here / "other.jsonl").touch()
    monkeypatch.chdir(here)
    encoder = "retrievers: [{type: tool2vec, encoder: {model: ./enc}}]\n"
    path = write(tmp_path, f"{GOOD}evaluate: {{on: [asked.jsonl]}}\n{encoder}")
    recipe = load_recipe(path).recipe
    assert recipe.evaluate.on == (tmp_path / "asked.jsonl",)
    assert recipe.retrievers[-1].encoder.model == str(tmp_path / "enc")
    changed = load_recipe(path, ["evaluate.on=[other.jsonl]"])
    assert changed.recipe.evaluate.on == (here / "other.jsonl",)


# A line after those of GOOD, and what the message names. All are line 7 of the file.
FAULTS = CORPUS / "recipes" / "faults.txt"
ELSEWHERE = [
    (GOOD + "  max_tools: 30\n", ["line 5", "max_tools (30)", "offered (10)"]),
    (GOOD.replace("python", "pyton"), ["line 3", "pyton", "python"]),
    (GOOD + "  tools_per_query: {11: 1}\n", ["tools_per_query (11)", "offered (10)"]),
    (
        GOOD + "  tools_per_query: {1: 1, 3: 1}\n  max_tools: 5\n",
        ["min_tools", "max_tools", "1 and 3"],
    ),
    ("name: mine\nsources: [python]\n", ["line 2", "sources.0: give `package`"]),
    (GOOD + f"domain: {'a' * 101}\n", ["line 7", "domain", "100 characters"]),
    (GOOD + "#" * 2_000_000, ["over 1 MB"]),
    (GOOD + "evaluate: {on: [a/test.jsonl]}\n", ["evaluate.on", "'test'"]),
    (GOOD + "evaluate: {on: [a/x.jsonl, b/x.jsonl]}\n", ["evaluate.on", "'x'"]),
    (GOOD + "  price: 3\n", ["generate.price", "of keys, or the path of a file"]),
    (GOOD + "  price: {input: 1}\n", ["generate.price.output: is missing"]),
    (GOOD + "judge: {against: 3}\n", ["'draft', or the path of a file"]),
    ("name: mine\n", ["needs `sources`", "or `dataset`"]),
    (DATASET + "sources: [{type: python, package: json}]\n", ["place of `sources`"]),
    (DATASET + "generate: {queries: 3}\n", ["place of `generate`"]),
    (DATASET.replace("jsonl", "csv"), ["dataset: no type 'csv'"]),
    ("name: mine\ndataset: {type: jsonl}\n", ["dataset.path: is missing"]),
    (DATASET + "split: {withhold_tools: 1}\n", ["split.withhold_tools"]),
    ("[1, 2]", ["mapping"]),
    ("a: [", ["line 1", "YAML"]),
    ("", ["mapping"]),
]


def of_line_7():
    for row in FAULTS.read_text().splitlines():
        line, parts = re.fullmatch(r"( *\S.*?)  +(\S.*)", row).groups()
        told = [part.strip() for part in parts.split("|")]
        yield pytest.param(f"{GOOD}{line}\n", ["line 7", *told], id=line)


@pytest.mark.parametrize(("text", "told"), [*of_line_7(), *ELSEWHERE])
def test_a_faulty_recipe_is_refused_with_file_line_and_key(tmp_path, text, told):
    with pytest.raises(InputError) as caught:
        read(tmp_path, text)
    message = str(caught.value)
    assert "mine.yaml" in message
    assert len(message.splitlines()) == 1
    assert [part for part in told if part not in message] == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("api_key_env", "sk-verysecret"),
        ("api_key_env", "http://me:verysecret@host/v1"),
        ("base_url", "http://me:verysecret@host/v1"),
    ],
)
def test_what_may_hold_a_password_is_never_repeated(tmp_path, key, value):
    path = write(tmp_path, GOOD + f"  {key}: {value}\n")
    with pytest.raises(InputError) as caught:
        load_recipe(path)
    assert key in str(caught.value)
    assert "verysecret" not in str(caught.value)


def test_list_items_are_set_by_number_name_or_type(tmp_path):
    text = f"{GOOD}retrievers: [{{type: bm25}}, {{type: bm25, name: b}}, {{type: nearest}}]\n"
    path = write(tmp_path, text)
    settings = ["retrievers.b.requests=true", "retrievers.nearest.by=bm25"]
    recipe = load_recipe(path, [*settings, "retrievers.0.name=a"]).recipe
    by_label = {config.label: config for config in recipe.retrievers}
    assert by_label["b"].requests
    assert not by_label["a"].requests
    assert by_label["nearest"].by == "bm25"
    with pytest.raises(InputError, match="nothing at 'bm25'"):
        load_recipe(path, ["retrievers.bm25.requests=true"])


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("generate.querys=3", "queries"),
        ("generate.queries", "key=value"),
        ("sources.5.package=json", "'5'"),
        ("generate.queries=x", "--set generate.queries"),
        ("name=", r"^--set name: .*\(got nothing\)$"),
        ("retrievers=[{type: bm26}]", "--set retrievers: .*bm26"),
        ("generate.max_outage=10m", "max_outage: should be a number: seconds"),
        ("generate.base_url=127.0.0.1:80", "should begin with http:// or https://"),
        ('generate.replies="a\\0b"', "path"),
        ("evaluate.resamples=1000000000", "at most 1000000"),
        ("generate=" + "[" * 5000, "not valid YAML"),
        ("generate.offered=2", r"^--set generate\.offered: max_tools \(5\)"),
        ("evaluate.ks=[true]", r"--set evaluate\.ks: .*should be a .*number"),
        *(
            (f"{key}=true", rf"--set {key}: .*should be a .*number")
            for key in ("seed", "generate.concurrency", "generate.queries")
        ),
        *(
            (f"{key}=false", rf"--set {key}: .*should be a .*number")
            for key in ("generate.temperature", "split.test")
        ),
    ],
)
def test_a_faulty_setting_is_refused(tmp_path, setting, told):
    with pytest.raises(InputError, match=told):
        load_recipe(write(tmp_path, GOOD), [setting])


def test_a_recipe_of_the_users_own_goes_before_ours(tmp_path, monkeypatch):
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "quickstart.yaml").write_text(GOOD)
    monkeypatch.chdir(tmp_path)
    loaded = load_recipe("quickstart")
    assert loaded.recipe.name == "mine"
    assert loaded.own


def test_the_default_of_a_key_is_read_as_the_page_of_keys_writes_it(tmp_path):
    row = r"^- `retrievers` \(`(.+?)`\)"
    (default,) = re.findall(row, describe_keys(recipe_schema()), re.MULTILINE)
    written = load_recipe(write(tmp_path, f"{GOOD}retrievers: {default}\n")).recipe
    assert written == read(tmp_path, GOOD)


def test_baselines_are_added_where_they_are_not_listed(tmp_path):
    for listed, expected in (
        ("[tool2vec]", "bm25 descriptions nearest tool2vec"),
        # Neighbours by words are no baseline for those by meaning.
        (
            "[{type: nearest, by: bm25, name: votes}, bm25]",
            "descriptions nearest votes bm25",
        ),
        ("[bm25]\nbaselines: false", "bm25"),
        (
            "[{type: descriptions, training: {}}]",
            "bm25 descriptions-untrained nearest descriptions",
        ),
    ):
        recipe = read(tmp_path, f"{GOOD}retrievers: {listed}\n")
        assert [one.label for one in recipe.retrievers] == expected.split()


def test_baselines_read_with_the_encoder_of_the_others(tmp_path):
    text = (
        "retrievers:\n  - type: bm25\n  - type: tool2vec\n"
        "    encoder: {model: intfloat/e5-small-v2, query_prefix: 'query: '}\n"
    )
    *baselines, _, tool2vec = read(tmp_path, GOOD + text).retrievers
    assert [baseline.type for baseline in baselines] == ["descriptions", "nearest"]
    assert all(baseline.encoder == tool2vec.encoder for baseline in baselines)


@pytest.mark.parametrize(
    "name",
    [path.name for path in (Path(__file__).parents[1] / "recipes").glob("*.yaml")],
)
def test_every_recipe_that_comes_along_is_valid(name):
    recipe = load_recipe(name).recipe
    assert {"bm25", "descriptions", "nearest"} <= {c.type for c in recipe.retrievers}


def test_replies_of_searches_are_in_the_run_folder(tmp_path):
    text = GOOD + (
        "retrievers:\n  - type: descriptions\n  - type: decomposition\n"
        "    decompose: {model: m, replies: parts.sqlite}\n"
    )
    file = load_recipe(write(tmp_path, text))
    placed = place_replies(file.recipe, file.path, tmp_path / "out")
    assert placed.retrievers[-1].decompose.replies == tmp_path / "out/parts.sqlite"
    dumped = yaml.safe_load(dump_recipe(placed, tmp_path / "out"))
    assert dumped["retrievers"][-1]["decompose"]["replies"] == "parts.sqlite"


@pytest.mark.parametrize("planner", [False, True])
@pytest.mark.parametrize(
    "replies",
    ["../hers.sqlite", "/elsewhere/hers.sqlite", "a/../../b.db", "link/b.db", "."],
)
def test_a_recipe_names_no_file_outside_of_the_run_folder(tmp_path, replies, planner):
    asked = f"{{model: m, replies: {replies}}}"
    text = GOOD + (
        f"planner: {{ask: {asked}, settings: [{{test: random}}]}}\n"
        if planner
        else "retrievers:\n  - type: descriptions\n  - type: decomposition\n"
        f"    decompose: {asked}\n"
    )
    file = load_recipe(write(tmp_path, text))
    out = tmp_path / "out"
    out.mkdir()
    (out / "link").symlink_to(tmp_path)
    with pytest.raises(InputError, match="not in the run folder") as told:
        place_replies(file.recipe, file.path, out)
    assert str(file.path) in str(told.value)
    assert "`replies: " in str(told.value)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("nofile.yaml", r"no such file, .*There are: .*quickstart\.yaml"),
        ("folder.yaml", r"^folder\.yaml: not the folder of a run"),
        ("pipe.yaml", r"^pipe\.yaml: not a file"),
        ("nofile.yaml", r"^nofile\.yaml: no such file(?!.*Did you mean)"),
        ("nosuch", r"^nosuch: no such file(?!.*Did you mean)"),
        ("pandsa", r"Did you mean pandas\.yaml\?"),
        ("awt.yaml", r"^awt\.yaml: not a file\. (?!.*Did you mean)"),
    ],
)
def test_a_missing_recipe_is_named_as_given(name, told, tmp_path, monkeypatch):
    (tmp_path / "folder.yaml").mkdir()
    for pipe in ("pipe.yaml", "awt.yaml"):
        os.mkfifo(tmp_path / pipe)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=told):
        load_recipe(name)


def test_aliases_that_multiply_are_read_in_no_time(tmp_path):
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)
    )
    with pytest.raises(InputError, match="unknown key"):
        read(tmp_path, GOOD + bomb)


OLD = """\
name: old
baselines: false
sources: [{type: sphinx, base_url: "http://127.0.0.1:9/"}]
retrievers: [bm25]
"""


@pytest.mark.parametrize(
    ("now", "before", "line"),
    [("baselines", "floors", 2), ('base_url: "', 'conduct: {}, base_url: "', 3)],
)
def test_an_old_key_is_refused_with_its_new_name(tmp_path, now, before, line):
    stamp = {"sources": {"key": "", "complete": True, "outputs": {}}}
    (tmp_path / "stages.json").write_text(json.dumps(stamp))
    path = tmp_path / "recipe.yaml"
    path.write_text(OLD.replace(now, before))
    new = "crawl" if "conduct" in before else now
    with pytest.raises(InputError, match=rf"line {line}: .*called '{new}' now"):
        load_recipe(str(tmp_path))
