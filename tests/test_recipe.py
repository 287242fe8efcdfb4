import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from toolbank.commands.schema import describe_keys
from toolbank.llm.journal import Journal
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


def test_a_recipe_that_comes_along_is_found_by_name():
    assert load_recipe("quickstart").recipe.generate.engine == "recorded"


def test_a_resolved_recipe_reads_back_to_the_same(tmp_path):
    recipe = load_recipe("quickstart").recipe
    assert load_recipe(write(tmp_path, dump_recipe(recipe))).recipe == recipe


def test_shares_of_numbers_of_tools_read_back_to_the_same(tmp_path):
    text = GOOD + "  tools_per_query: {1: .25, 2: .35, 3: .25, 4: .15}\n"
    recipe = load_recipe(write(tmp_path, text)).recipe
    assert (recipe.generate.fewest_tools, recipe.generate.most_tools) == (1, 4)
    assert load_recipe(write(tmp_path, dump_recipe(recipe))).recipe == recipe
    assert load_recipe(write(tmp_path, GOOD)).recipe.generate.tools_per_query is None


def test_a_resolved_recipe_takes_shares_and_lets_them_go(tmp_path):
    plain = load_recipe(write(tmp_path, GOOD)).recipe
    resolved = write(tmp_path, dump_recipe(plain))
    shared = load_recipe(resolved, ["generate.tools_per_query={1: 1, 3: 1}"]).recipe
    resolved = write(tmp_path, dump_recipe(shared))
    assert load_recipe(resolved, ["generate.tools_per_query=null"]).recipe == plain


def test_a_setting_that_does_not_go_with_others_is_named_once(tmp_path):
    path = write(tmp_path, GOOD)
    with pytest.raises(InputError, match=r"^--set generate\.offered: max_tools \(5\)"):
        load_recipe(path, ["generate.offered=2"])


def test_a_recipe_of_before_with_shares_and_their_numbers_is_read(tmp_path):
    text = GOOD + "  tools_per_query: {1: 1, 3: 1}\n  min_tools: 1\n  max_tools: 3\n"
    assert load_recipe(write(tmp_path, text)).recipe.generate.most_tools == 3


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


def test_settings_change_values_and_items_of_lists(tmp_path):
    recipe = load_recipe(
        write(tmp_path, GOOD), ["generate.queries=7", "sources.0.package=csv"]
    ).recipe
    assert recipe.generate.queries == 7
    assert recipe.sources[0].package == "csv"


def test_paths_in_a_recipe_start_at_its_folder_and_in_settings_here(
    tmp_path, monkeypatch
):
    (tmp_path / "asked.jsonl").touch()
    here = tmp_path / "elsewhere"
    here.mkdir()
    (here / "other.jsonl").touch()
    monkeypatch.chdir(here)
    path = write(tmp_path, GOOD + "evaluate:\n  on: [asked.jsonl]\n")
    assert load_recipe(path).recipe.evaluate.on == (tmp_path / "asked.jsonl",)
    changed = load_recipe(path, ["evaluate.on=[other.jsonl]"])
    assert changed.recipe.evaluate.on == (here / "other.jsonl",)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (GOOD + "genrate: {}\n", ["line 7", "'genrate'", "'generate'"]),
        (GOOD + "floors: false\n", ["line 7", "'floors'", "'baselines' now"]),
        (GOOD + "retrievers: [{type: [bm25]}]\n", ["line 7", "retrievers.0", "type"]),
        (GOOD + "  max_tols: 3\n", ["line 7", "generate.max_tols", "max_tools"]),
        (GOOD + "  queries: many\n", ["line 7", "generate.queries", "many"]),
        (GOOD + "  max_tools: 30\n", ["line 5", "max_tools (30)", "offered (10)"]),
        (GOOD + "  engine: rules\n", ["line 7", "given twice"]),
        (GOOD.replace("python", "pyton"), ["line 3", "pyton", "python"]),
        (GOOD + "  min_tools: 0\n", ["line 7", "generate.min_tools"]),
        (GOOD + "  tools_per_query: {0: 1}\n", ["line 7", "generate.tools_per_query"]),
        (GOOD + "  tools_per_query: {1: 0}\n", ["line 7", "greater than 0"]),
        (GOOD + "  tools_per_query: {one: 1}\n", ["line 7", "a whole number", "one"]),
        (GOOD + "  tools_per_query: {}\n", ["line 7", "at least 1 entry"]),
        (GOOD + "  tools_per_query: 2\n", ["line 7", "a mapping"]),
        (
            GOOD + "  tools_per_query: {11: 1}\n",
            ["tools_per_query (11)", "offered (10)"],
        ),
        (
            GOOD + "  tools_per_query: {1: 1, 3: 1}\n  max_tools: 5\n",
            ["min_tools", "max_tools", "1 and 3"],
        ),
        (GOOD + "retrievers: []\n", ["line 7", "retrievers", "at least 1"]),
        (GOOD + "retrievers: [{}]\n", ["line 7", "type"]),
        (GOOD + "retrievers: [3]\n", ["line 7", "a mapping with a `type`"]),
        (GOOD + "retrievers: [bm26]\n", ["line 7", "did you mean 'bm25'?"]),
        (
            "name: mine\nsources: [python]\n",
            ["line 2", "sources.0: give `package`"],
        ),
        (
            GOOD + "retrievers: [{type: bm26}]\n",
            ["line 7", "no type 'bm26'; did you mean 'bm25'? There are: 'bm25', "],
        ),
        (
            GOOD + "  replies: 3\n",
            [
                "line 7",
                "generate.replies",
                "should be the path of a file or folder (got '3')",
            ],
        ),
        (GOOD + f"  queries: {10**23}\n", ["line 7", "generate.queries", "at most"]),
        (GOOD + "domain: ../../etc/passwd\n", ["line 7", "domain", "slash"]),
        (GOOD + 'domain: "a\\eb"\n', ["line 7", "domain", "on one line"]),
        (GOOD + f"domain: {'a' * 101}\n", ["line 7", "domain", "100 characters"]),
        (
            GOOD.replace("python", "&a python") + "x: {<<: {a: 1}}\n",
            ["line 7", "merge keys (<<)"],
        ),
        (GOOD + "#" * 2_000_000, ["over 1 MB"]),
        (GOOD + "judge:\n", ["line 7", "judge", "mapping"]),
        (GOOD + "evaluate: {on: [a/test.jsonl]}\n", ["evaluate.on", "'test'"]),
        (GOOD + "evaluate: {on: [a/x.jsonl, b/x.jsonl]}\n", ["evaluate.on", "'x'"]),
        (GOOD + "  base_url: http://me:secret@x/v1\n", ["generate.base_url"]),
        (GOOD + "  concurrency: 0\n", ["line 7", "generate.concurrency", "at least 1"]),
        (
            GOOD + "  concurrency: many\n",
            ["line 7", "should be a whole number, or 'auto' (got 'many')"],
        ),
        (GOOD + "  rpm: 0\n", ["line 7", "generate.rpm"]),
        (GOOD + "  timeout: .inf\n", ["line 7", "generate.timeout", "finite"]),
        (GOOD + "  parameters: 0.9\n", ["line 7", "generate.parameters", "mapping"]),
        (
            GOOD + "  parameters: {top_p: 2026-01-01}\n",
            ["line 7", "generate.parameters.top_p", "JSON"],
        ),
        (
            GOOD + "  price: 3\n",
            ["generate.price", "should be a mapping of keys, or the path of a file"],
        ),
        (
            GOOD + "  price: {input: cheap, output: 1}\n",
            ["line 7", "generate.price.input", "number", "'cheap'"],
        ),
        (GOOD + "  price: {input: 1}\n", ["generate.price.output: is missing"]),
        (
            GOOD + "  price: {input: 1, output: 2, cached: 3}\n",
            ["line 7", "unknown key 'generate.price.cached'", "input, output"],
        ),
        (
            GOOD + "  budget:\n    dollars: 5\n",
            ["line 7", "generate.budget", "without a price", "`price`"],
        ),
        (GOOD + "  budget: {dolars: 5}\n", ["line 7", "budget.dolars", "'dollars'"]),
        (GOOD + "  budget: {calls: 0}\n", ["line 7", "generate.budget.calls"]),
        (GOOD + "judge: {against: 3}\n", ["'draft', or the path of a file"]),
        ("[1, 2]", ["mapping"]),
        ("a: [", ["line 1", "YAML"]),
        ("", ["mapping"]),
    ],
)
def test_a_faulty_recipe_is_refused_with_file_line_and_key(tmp_path, text, told):
    path = write(tmp_path, text)
    with pytest.raises(InputError) as caught:
        load_recipe(path)
    message = str(caught.value)
    assert "mine.yaml" in message
    assert len(message.splitlines()) == 1
    for part in told:
        assert part in message


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


def test_aliases_that_multiply_are_read_in_no_time(tmp_path):
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)
    )
    with pytest.raises(InputError, match="unknown key"):
        load_recipe(write(tmp_path, GOOD + bomb))


def test_a_folder_with_an_encoder_is_found_from_the_recipes_folder(tmp_path):
    text = GOOD + "retrievers: [{type: tool2vec, encoder: {model: ./enc}}]\n"
    config = load_recipe(write(tmp_path, text)).recipe.retrievers[-1]
    assert config.encoder.model == str(tmp_path / "enc")


def test_an_item_of_a_list_is_set_by_its_number_or_by_a_name_or_type_of_its_own(
    tmp_path,
):
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


def labels(tmp_path, text):
    return [
        c.label for c in load_recipe(write(tmp_path, GOOD + text)).recipe.retrievers
    ]


def test_the_default_of_a_key_is_read_as_the_page_of_keys_writes_it(tmp_path):
    row = r"^- `retrievers` \(`(.+?)`\)"
    (default,) = re.findall(row, describe_keys(recipe_schema()), re.MULTILINE)
    written = load_recipe(write(tmp_path, f"{GOOD}retrievers: {default}\n")).recipe
    assert written == load_recipe(write(tmp_path, GOOD)).recipe


def test_baselines_are_added_where_they_are_not_listed(tmp_path):
    baselines = ["bm25", "descriptions", "nearest"]
    assert labels(tmp_path, "retrievers: [{type: tool2vec}]\n") == [
        *baselines,
        "tool2vec",
    ]
    listed = "retrievers: [{type: nearest, by: bm25, name: votes}, {type: bm25}]\n"
    # Neighbours by words are no baseline for those by meaning.
    assert labels(tmp_path, listed) == ["descriptions", "nearest", "votes", "bm25"]
    assert labels(tmp_path, "baselines: false\nretrievers: [{type: bm25}]\n") == [
        "bm25"
    ]
    trained = "retrievers: [{type: descriptions, training: {}}]\n"
    assert labels(tmp_path, trained) == [
        *("bm25", "descriptions-untrained", "nearest", "descriptions")
    ]


def test_baselines_read_with_the_encoder_of_the_others(tmp_path):
    text = (
        "retrievers:\n  - type: bm25\n  - type: tool2vec\n"
        "    encoder: {model: intfloat/e5-small-v2, query_prefix: 'query: '}\n"
    )
    *baselines, _, tool2vec = load_recipe(
        write(tmp_path, GOOD + text)
    ).recipe.retrievers
    assert [baseline.type for baseline in baselines] == ["descriptions", "nearest"]
    assert all(baseline.encoder == tool2vec.encoder for baseline in baselines)


def test_baselines_that_were_added_are_in_the_resolved_recipe(tmp_path):
    path = write(tmp_path, GOOD + "retrievers: [{type: tool2vec}]\n")
    recipe = load_recipe(path).recipe
    assert load_recipe(write(tmp_path, dump_recipe(recipe))).recipe == recipe


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
    assert "cp " not in str(told.value)


ASKED = (
    "retrievers:\n  - type: bm25\n  - {type: llm, first_stage: bm25, model: m, replies: %s}\n"
    "  - {type: decomposition, first_stage: bm25, decompose: {model: m, replies: %s}}\n"
)


@pytest.mark.parametrize("names", [("a/r.sqlite", "b/r.sqlite"), ("c/y.db", "y.db")])
def test_the_advice_to_copy_replies_never_writes_over_others(tmp_path, names):
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        with Journal(tmp_path / name):
            pass
    out = tmp_path / "out"
    given = [str(tmp_path / name) for name in names]
    for number in range(2):
        file = load_recipe(write(tmp_path, GOOD + ASKED % tuple(given)))
        with pytest.raises(InputError, match="Replies are kept there") as refused:
            place_replies(file.recipe, file.path, out)
        said = str(refused.value)
        subprocess.run(said.partition("in it: ")[2], shell=True, check=True)
        given[number] = said.partition("`replies: ")[2].partition("`")[0]
        assert (tmp_path / given[number]).is_file()
    assert len(set(given)) == 2
    file = load_recipe(write(tmp_path, GOOD + ASKED % tuple(given)))
    assert place_replies(file.recipe, file.path, out)


DATASET = "name: mine\ndataset: {type: jsonl, path: theirs, ordered: true}\n"


def test_a_dataset_takes_the_place_of_what_makes_a_bank(tmp_path):
    recipe = load_recipe(write(tmp_path, DATASET)).recipe
    assert recipe.unused_keys == (
        "sources",
        "generate",
        "judge",
        "asks",
        "verify",
    )
    assert recipe.dataset.path == tmp_path / "theirs"
    assert load_recipe(write(tmp_path, dump_recipe(recipe))).recipe == recipe


def test_a_dataset_is_judged_where_the_recipe_says_so(tmp_path):
    recipe = load_recipe(write(tmp_path, DATASET + "judge: {pairs: 3}\n")).recipe
    assert "judge" not in recipe.unused_keys
    assert load_recipe(write(tmp_path, dump_recipe(recipe))).recipe == recipe


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("name: mine\n", "needs `sources`.*or `dataset`"),
        (DATASET + "sources: [{type: python, package: json}]\n", "place of `sources`"),
        (DATASET + "generate: {queries: 3}\n", "place of `generate`"),
        (DATASET.replace("jsonl", "csv"), "dataset: no type 'csv'"),
        ("name: mine\ndataset: {type: jsonl}\n", "dataset.path: is missing"),
        (DATASET + "split: {withhold_tools: 1}\n", "split.withhold_tools"),
    ],
)
def test_a_recipe_says_once_where_its_bank_is_from(tmp_path, text, told):
    with pytest.raises(InputError, match=told):
        load_recipe(write(tmp_path, text))


@pytest.mark.parametrize("section", ["generate", "judge"])
def test_a_temperature_need_not_be_sent(tmp_path, section):
    recipe = load_recipe("quickstart", [f"{section}.temperature=null"]).recipe
    assert getattr(recipe, section).temperature is None
    # The run folder's own recipe must not ask for all replies again.
    assert load_recipe(write(tmp_path, dump_recipe(recipe))).recipe == recipe


@pytest.mark.parametrize(
    "setting",
    [
        *("seed=true", "generate.concurrency=true", "evaluate.ks=[true]"),
        *("generate.queries=false", "generate.temperature=true", "split.test=true"),
    ],
)
def test_true_and_false_are_no_numbers(setting):
    key = setting.partition("=")[0]
    with pytest.raises(InputError, match=rf"--set {key}: .*should be a .*number"):
        load_recipe("quickstart", [setting])


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (
            "nofile.yaml",
            r"^nofile\.yaml: no such file, .*There are: .*quickstart\.yaml",
        ),
        ("folder.yaml", r"^folder\.yaml: not the folder of a run"),
        ("pipe.yaml", r"^pipe\.yaml: not a file"),
        ("nofile.yaml", r"^nofile\.yaml: no such file(?!.*Did you mean)"),
        ("nosuch", r"^nosuch: no such file(?!.*Did you mean)"),
        ("pandsa", r"Did you mean pandas\.yaml\?"),
        ("awt.yaml", r"^awt\.yaml: not a file\. (?!.*Did you mean)"),
    ],
)
def test_a_recipe_that_is_none_is_called_by_the_name_that_was_given(
    name, told, tmp_path, monkeypatch
):
    (tmp_path / "folder.yaml").mkdir()
    for pipe in ("pipe.yaml", "awt.yaml"):
        os.mkfifo(tmp_path / pipe)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=told):
        load_recipe(name)


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
def test_an_old_key_is_refused_with_its_new_name_in_a_run_folder_too(
    tmp_path, now, before, line
):
    stamp = {"sources": {"key": "", "complete": True, "outputs": {}}}
    (tmp_path / "stages.json").write_text(json.dumps(stamp))
    path = tmp_path / "recipe.yaml"
    path.write_text(OLD.replace(now, before))
    new = "crawl" if "conduct" in before else now
    with pytest.raises(InputError, match=rf"line {line}: .*called '{new}' now"):
        load_recipe(str(tmp_path))
