"""A published folder is what other libraries load."""

import json
import re
import tracemalloc
from dataclasses import replace
from shutil import copytree

import datasets
import ir_measures
import polars as pl
import pytest
import yaml
from ir_measures import R
from sentence_transformers import SentenceTransformer

from tests.commands.in_process import do
from tests.publish.runs import BANK, QUERIES, TOOLS, make_run
from tests.tiny_models import tiny_encoder
from tests.world import files_under
from toolbank.bank.bank import PROFILE, Label
from toolbank.bank.files import write_records
from toolbank.bank.profile import QueryProfile
from toolbank.datasets import find_format
from toolbank.datasets.published import PublishedConfig, read_published
from toolbank.publish.data import write_graded
from toolbank.publish.publish import PublicationParts, publish_to_folder
from toolbank.requests.quality.measure import measure_quality
from toolbank.run.recipe import load_recipe
from toolbank.run.stages import make_stages
from toolbank.system.errors import InputError
from toolbank.system.files import write_json
from toolbank.system.folders import MARK


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("run") / "shop", labelled=True)


@pytest.fixture(scope="module")
def published(run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("published") / "shop"
    made = publish_to_folder(PublicationParts(run, "cc-by-4.0", shard_rows=1), folder)
    for part in ("3 tools", "4 requests", "1 set aside", "1 ask", "4 verified", "bm25"):
        assert part in made.summary
    return folder


def publish(run, out, **settings):
    """Publish a run to a folder; what was published, and the card."""
    made = publish_to_folder(PublicationParts(run, **settings), out)
    return made, (out / "README.md").read_text()


def load(folder, cache, *config):
    return datasets.load_dataset(str(folder), *config, cache_dir=str(cache))


def test_it_is_loaded_by_datasets(published, tmp_path):
    queries = load(published, tmp_path)
    # The empty one would keep `datasets` from loading any.
    assert {name: len(rows) for name, rows in queries.items()} == {
        "train": 2,
        "test": 2,
    }
    assert len(pl.read_parquet(published / "data/validation-*.parquet")) == 0
    names = sorted(path.name for path in (published / "data").glob("train-*"))
    assert names == ["train-00000-of-00002.parquet", "train-00001-of-00002.parquet"]
    row = queries["test"][0]
    assert row["query"] == QUERIES[0].query
    assert row["tools"] == row["tools_first"] == list(QUERIES[0].tools)
    # The merged labels, and those that it was written with.
    assert queries["test"][1]["tools"] == ["shop.find order"]
    assert queries["test"][1]["tools_first"] == ["shop.total"]
    assert load(published, tmp_path, "aside")["aside"]["id"] == ["3"]
    assert row["provenance"] == {**QUERIES[0].provenance.model_dump(), "requests": []}
    assert queries["test"].features == queries["train"].features
    tools = load(published, tmp_path, "tools")["tools"]
    assert tools["name"] == [tool.name for tool in TOOLS]
    assert json.loads(tools["parameters"][0]) == TOOLS[0].parameters
    assert load(published, tmp_path, "asks")["train"]["ask"] == ["add up"]
    grades = load(published, tmp_path, "labels")["labels"]
    assert set(grades["query"]) == {"2", "3", "4"}


def test_the_columns_of_toolbank_are_a_view(published, tmp_path):
    card = (published / "README.md").read_text().splitlines()
    code = [line for line in card if line.startswith(("names = ", "toolbank = "))]
    made = {"queries": load(published, tmp_path)}
    exec("\n".join(code), made)
    test = made["toolbank"]["test"]
    assert test.column_names == ["refined_instruction", "functions", "explanation"]
    assert test[0]["functions"] == list(QUERIES[0].tools)


def test_grades_are_the_verified_ones_where_there_are_some(published):
    lines = (published / "qrels/test.trec").read_text().splitlines()
    assert [line.split() for line in lines] == [
        # First labels; ids have no blanks.
        ["q%201", "0", "shop.find%20order", "2"],
        ["q%201", "0", "shop.total", "2"],
        # Verified; that of 3 is set aside.
        ["2", "0", "shop.find%20order", "2"],
        ["2", "0", "shop.merge", "1"],
    ]
    tsv = (published / "qrels/test.tsv").read_text().splitlines()
    assert tsv[0].split("\t") == ["query-id", "corpus-id", "score"]
    assert [row.split("\t") for row in tsv[1:]] == [
        [qid, tool, grade] for qid, _, tool, grade in map(str.split, lines)
    ]


def test_labels_of_other_requests_take_no_memory(published, tmp_path):
    copytree(published / "data", tmp_path / "data")
    row = {"tool": "shop.total", "grade": "needed"}
    other = (Label(query=f"train {n}", **row) for n in range(20_000))
    write_records(tmp_path / "data/labels-1.parquet", Label, other)
    tracemalloc.start()
    (tmp_path / "out").mkdir()
    write_graded(tmp_path / "data", tmp_path / "out")
    assert tracemalloc.get_traced_memory()[1] < 2_000_000
    tracemalloc.stop()
    name = "qrels/test.trec"
    assert (tmp_path / "out" / name).read_text() == (published / name).read_text()


def test_qrels_name_what_is_in_the_corpus_and_the_queries(published):
    def rows(name):
        return [json.loads(line) for line in (published / name).open()]

    corpus, queries = rows("corpus.jsonl"), rows("queries.jsonl")
    train, qrels = (
        list(ir_measures.read_trec_qrels(str(published / f"qrels/{split}.trec")))
        for split in ("train", "test")
    )
    assert {one.query_id for one in train} == {"4", "5"}
    every = [*train, *qrels]
    assert {one.query_id for one in every} == {row["_id"] for row in queries}
    assert {one.doc_id for one in every} <= {row["_id"] for row in corpus}
    # No request is for validation.
    assert not [*(published / "qrels").glob("dev.*")]
    row = {"title": TOOLS[0].name, "text": TOOLS[0].summary}
    assert corpus[0] == {"_id": "shop.find%20order", **row}
    run = {"q%201": {"shop.total": 2.0}, "2": {"shop.merge": 1.0}}
    recalls = ir_measures.calc_aggregate([R @ 1, R(rel=2) @ 1], qrels, run)
    assert recalls == {R @ 1: 0.5, R(rel=2) @ 1: 0.25}


def test_without_verified_labels_the_first_ones_count(tmp_path):
    _, card = publish(make_run(tmp_path / "run"), tmp_path / "out")
    qrels = (tmp_path / "out/qrels/test.trec").read_text()
    assert "3 0 shop.total 2" in qrels
    assert " 1\n" not in qrels
    assert "by first labels" in card
    assert not list((tmp_path / "out/data").glob("labels-*"))


def test_a_tuned_encoder_is_loaded_by_sentence_transformers(tmp_path):
    run = make_run(tmp_path / "run", retrievers=[{"type": "tool2vec"}], fitted=False)
    tool2vec = run.models / "tool2vec"
    tiny_encoder(tool2vec / "encoder", words=["order", "total"])
    (tool2vec / "README.md").write_text("# tool2vec\n")
    _, card = publish(run, tmp_path / "out")
    assert 'SentenceTransformer("FOLDER/models/tool2vec/encoder")' in card
    encoder = SentenceTransformer(str(tmp_path / "out/models/tool2vec/encoder"))
    assert encoder.encode(["Total of my order"]).shape == (1, 32)


def test_it_is_a_bank_again(published):
    config = find_format(published)
    assert config == PublishedConfig(type="published", path=published)
    found = read_published(config)
    assert found.tools == TOOLS
    expected = {query.id: query for query in QUERIES if query.split}
    renamed = {"tools": ("shop.find order",)}
    expected["4"] = expected["4"].model_copy(update=renamed)
    assert {query.id: query for query in found.queries} == expected
    assert found.asks == BANK.asks
    assert [label.query for label in found.labels] == ["2", "2", "3", "4"]
    assert not found.left_out.describe()


def test_the_head_of_the_card_is_what_the_hub_reads(published):
    _, head, text = (published / "README.md").read_text().split("---\n", 2)
    meta = yaml.safe_load(head)
    assert meta["license"] == "cc-by-4.0"
    assert meta["task_categories"] == ["text-retrieval"]
    assert meta["size_categories"] == ["n<1K"]
    defaults = {one["config_name"]: one.get("default") for one in meta["configs"]}
    others = dict.fromkeys(("tools", "asks", "labels", "aside"))
    assert defaults == {"queries": True, **others}
    assert "1 request of the bank is in no split" in text
    assert "1 request is set aside" in text
    assert "toolbank is" not in text


def test_foreign_text_is_no_structure_of_the_card(tmp_path):
    evil = (
        "x\n---\n# Boo | [a](http://evil.example) <script> `b` https://u:pw@h.example"
    )
    info = {"name": "shop", "generate": {"engine": "openai", "model": evil}}
    info["sources"] = {"sources": [{"source": evil}]}
    run = make_run(tmp_path / "run", bank=replace(BANK, info=info))
    _, card = publish(run, tmp_path / "out")
    lines = card.splitlines()
    assert lines.count("---") == 2
    assert not [line for line in lines if line.startswith("# Boo")]
    for structure in ("<script>", "[a](", "http://evil", "u:pw"):
        assert structure not in card
    assert "\\# Boo" in card


@pytest.mark.parametrize(
    ("info", "said"),
    [
        ({"generate": {"engine": 3}}, "Requests were written by 3."),
        ({"generate": "by hand"}, "an engine without a name"),
        ({"sources": {"sources": [{"tools": 1}, "x", {"source": "a"}]}}, "from: a."),
        ({"sources": "a"}, "dataset of others"),
        ({"generate": {"engine": "rules"}, "counts": {"accepted": 1}}, "by rules."),
    ],
)
def test_a_bank_that_says_little_of_its_making_is_published(tmp_path, info, said):
    run = make_run(tmp_path / "run", bank=replace(BANK, info={**BANK.info, **info}))
    assert said in publish(run, tmp_path / "out")[1]


def test_what_is_only_this_machines_is_not_published(tmp_path):
    replies = tmp_path / "secret-folder" / "replies.jsonl"
    replies.parent.mkdir()
    replies.write_text("")
    generate = {"engine": "recorded", "replies": str(replies)}
    generate["base_url"] = "https://internal.example/v1"
    encoder = {"model": str(replies.parent)}
    secrets = ["--cache", "/cache/sk-1Hunter22hunter22"]
    recipe = {
        "sources": [{"type": "mcp", "command": ["npx", "-y", "server", *secrets]}],
        "generate": generate,
        "retrievers": [{"type": "bm25"}, {"type": "descriptions", "encoder": encoder}],
    }
    run = make_run(tmp_path / "run", fitted=False, **recipe)
    run.journal.write_text("journal")
    url = "https://me:hunter22@models.example/v1?key=hunter22"
    model = run.models / "descriptions"
    write_json(model / "config.json", {"encoder": encoder, "base_url": url})
    (model / "README.md").write_text(f"model: {encoder['model']}\n")
    publish_to_folder(PublicationParts(run), tmp_path / "out")
    files = files_under(tmp_path / "out")
    assert "models/descriptions/README.md" in files
    recipe = yaml.safe_load(files["recipe.yaml"])
    assert recipe["generate"]["replies"] == "replies.jsonl"
    for name, content in files.items():
        assert b"hunter22" not in content, name
        assert b"internal.example" not in content, name
        assert str(tmp_path).encode() not in content, name
        assert "journal" not in name


def test_a_publication_replaces_all_of_an_earlier_one(run, published, tmp_path):
    publish(run, tmp_path / "out", licence="cc-by-4.0", shard_rows=1)
    assert files_under(tmp_path / "out") == files_under(published), "the same bytes"
    (tmp_path / "out/notes.txt").write_text("mine")
    small = make_run(tmp_path / "run", fitted=False)
    for out in ("out", "fresh"):
        publish(small, tmp_path / out)
    assert (tmp_path / "out/notes.txt").read_text() == "mine"
    (tmp_path / "out/notes.txt").unlink()
    assert files_under(tmp_path / "out") == files_under(tmp_path / "fresh")
    assert not (tmp_path / "out/models").exists()


@pytest.mark.parametrize("is_published", [False, True])
@pytest.mark.parametrize("name", ["README.md", "data/mine.txt", MARK])
def test_files_of_the_user_are_never_written_over(run, tmp_path, name, is_published):
    if is_published:
        publish(run, tmp_path)
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("[]")
    before = files_under(tmp_path)
    with pytest.raises(InputError, match=name.partition("/")[0]):
        publish(run, tmp_path)
    assert files_under(tmp_path) == before


@pytest.mark.parametrize(
    ("wanted", "place", "remedy"),
    [
        *(
            ({"licence": licence}, "--license", "cc-by-4.0")
            for licence in ("a b", "MIT\nx: y", "../x", "-")
        ),
        ({"retriever": "tool2vec"}, "tool2vec", "bm25"),
    ],
)
def test_what_cannot_be_published_is_refused(run, tmp_path, wanted, place, remedy):
    with pytest.raises(InputError) as told:
        publish(run, tmp_path / "out", **wanted)
    assert place in str(told.value) and remedy in str(told.value)


def test_what_is_of_an_earlier_bank_is_refused_or_skipped_and_named(tmp_path):
    run = make_run(tmp_path / "run")
    publish(run, tmp_path / "out")
    before = files_under(tmp_path / "out")
    model = run.models / "bm25" / "config.json"
    run.stamp("retrievers/bm25", "of an earlier bank", [model], complete=True)
    done = do(tmp_path, "publish", "run", "--to", "out", code=2)
    assert "retrievers/bm25" in done.stderr and "toolbank run run" in done.stderr
    assert files_under(tmp_path / "out") == before
    made, card = publish(run, tmp_path / "out", skip_stale=True)
    assert made.retriever is None
    assert set(made.story.stale) == {"retrievers/bm25"}
    assert not (tmp_path / "out/models").exists()
    assert "results of retrievers/bm25" in card


def key_of(run, kind):
    """The key of the stage of this kind, by the recipe and the files of a run."""
    stages = make_stages(load_recipe(str(run.recipe)).recipe, run)
    (stage,) = (stage for stage in stages if stage.kind == kind)
    return stage.key


def test_verified_labels_of_this_bank_are_published_complete_or_not(tmp_path):
    run = make_run(tmp_path / "run", labelled=True, verify={"engine": "rules"})
    figures = {"engine": "rules", "findings": {}, "calls": {}}
    figures["candidates"] = {"requests": 5, "mean": 2.0}
    figures["counts"] = {"requests": 3, "needed": 3, "alternative": 1, "aside": 1}
    write_json(run.verified, figures)
    labels = run.bank / "labels.parquet"
    run.stamp("verify", "of an earlier bank", [labels], complete=True)
    with pytest.raises(InputError, match="First: toolbank run"):
        publish(run, tmp_path / "out")
    run.stamp("verify", key_of(run, "verify"), [labels], complete=False)
    made, _ = publish(run, tmp_path / "out")
    assert (made.rows.aside, made.rows.relabelled) == (1, 2)
    assert not made.story.stale


def test_the_card_tells_what_was_measured(tmp_path):
    folder = {"type": "python", "folder": str(tmp_path / "mine")}
    sources = [{"type": "python", "package": "statistics"}, folder]
    run = make_run(tmp_path / "run", sources=sources)
    write_json(run.quality, measure_quality(BANK, 0).as_json())
    for path in (run.metrics, run.labels, run.calibration, run.copies):
        write_json(path, [])
    write_records(run.bank / PROFILE, QueryProfile, ())
    write_json(run.judge, {})
    run.hits.mkdir()
    run.stamp("report", key_of(run, "report"), [run.quality], complete=True)
    _, card = publish(run, tmp_path / "out", skip_stale=True)
    assert re.search(r"distinct sets of tools \| [\d.]+ %", card)
    assert "Nothing was measured" not in card
    for stated in ("of Python 3", "python:mine: not given by the source"):
        assert card.count(stated) == 2, "in the datasheet and under Licence"


def test_what_a_run_was_read_from_is_never_written_over(run, tmp_path):
    publish(run, tmp_path / "first")
    dataset = {"type": "published", "path": str(tmp_path / "first")}
    recipe = {"name": "again", "dataset": dataset, "retrievers": [{"type": "bm25"}]}
    make_run(tmp_path / "again").recipe.write_text(json.dumps(recipe))
    before = files_under(tmp_path / "first")
    done = do(tmp_path, "publish", "again", "--to", "first", code=2)
    assert "dataset" in done.stderr
    assert files_under(tmp_path / "first") == before
