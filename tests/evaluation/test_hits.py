import json

import ir_measures
import pytest
from ir_measures import RR, R, nDCG

from tests.retrievers.small_methods import fit_one
from tests.world import make_bank
from toolbank.bank.records import Query
from toolbank.evaluation import EvaluateConfig
from toolbank.evaluation.evaluate import make_figures, measure, read_hits, write_hits
from toolbank.evaluation.sets import held_out_set, make_set
from toolbank.retrievers.settings import Bm25Config

CONFIG = EvaluateConfig(ks=(1, 3, 5), resamples=100)
WORDS = ("mean", "sort", "plot", "sum", "join", "count", "rank", "fill")


@pytest.fixture
def written(tmp_path):
    uses = [
        (
            f"{WORDS[i % 8]} and {WORDS[3 * i % 8]} my values",
            [f"lab.{WORDS[i % 8]}", f"lab.{WORDS[5 * i % 8]}"],
            "test" if i < 12 else "train",
        )
        for i in range(40)
    ]
    bank = make_bank({f"lab.{word}": f"To {word} values." for word in WORDS}, uses)
    retriever = fit_one(Bm25Config(), bank)
    strange = Query(id="x", query="rank them", tools=("lab.rank", "lab.gone"))
    sets = [held_out_set(bank), make_set("mine", bank, [strange])]
    measured = [measure(retriever, one, CONFIG) for one in sets]
    path = tmp_path / "hits" / "bm25.jsonl"
    write_hits(path, measured)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return lines, [r for one in measured for r in make_figures(one, CONFIG, seed=0)]


def recompute(lines, metric, k):
    if metric == "comp":
        return sum(set(x["tools"]) <= set(x["hits"][:k]) for x in lines) / len(lines)
    measure = {"recall": R, "ndcg": nDCG}[metric] @ k if k else RR
    qrels = [ir_measures.Qrel(x["id"], tool, 1) for x in lines for tool in x["tools"]]
    run = [
        ir_measures.ScoredDoc(x["id"], tool, -rank)
        for x in lines
        for rank, tool in enumerate(x["hits"])
    ]
    return ir_measures.calc_aggregate([measure], qrels, run)[measure]


def test_every_figure_is_that_of_ir_measures_over_the_file(written):
    lines, records = written
    assert {record.set for record in records} > {"test", "mine"}
    for record in records:
        name = record.set
        chosen = [x for x in lines if name == x["set"] or name in x["parts"]]
        assert len(chosen) == record.n
        value = recompute(chosen, record.metric, record.k)
        assert value == pytest.approx(record.value), record


def test_the_first_hits_are_read_again_with_scores_that_fall(written, tmp_path):
    for line in written[0]:
        assert len(line["scores"]) == len(line["hits"]) <= len(WORDS)
        assert line["scores"] == sorted(line["scores"], reverse=True)
    lines, _ = written
    read = read_hits(tmp_path / "hits" / "bm25.jsonl", 3)
    assert [(one.set, one.id) for one in read] == [(x["set"], x["id"]) for x in lines]
    assert [list(one.hits) for one in read] == [x["hits"][:3] for x in lines]
    assert read[-1].query == "rank them"
    assert read[-1].missed == ("lab.gone",)
    assert read[-1].recall == 0.5
