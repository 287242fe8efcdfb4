"""Figures of a publication are those that others compute from its qrels and runs."""

import ir_measures
import pytest
from ir_measures import nDCG

from tests.run.test_verify import grader
from tests.servers.chat import ChatServer
from tests.world import write_recipe
from toolbank.evaluation.figures import read_figures
from toolbank.publish.publish import PublicationParts, publish_to_folder
from toolbank.run.folder import RunFolder
from toolbank.run.recipe import load_recipe
from toolbank.run.run import run_recipe


@pytest.fixture(scope="module", params=[True, False], ids=["verified", "first"])
def made(request, tmp_path_factory):
    """A run with two retrievers, and its publication."""
    folder = tmp_path_factory.mktemp("project")
    path = write_recipe(folder, engine="rules", queries=60)
    settings = [
        "split.test=0.4",
        "retrievers=[{type: bm25}, {type: bm25, name: asked, requests: true}]",
    ]
    with ChatServer(grader) as server:
        model = f"{{engine: openai, base_url: '{server.url}', model: m, candidates: 3}}"
        verify = [f"verify={model}"] if request.param else []
        run_recipe(load_recipe(path, [*settings, *verify]), folder / "run")
    parts = PublicationParts(RunFolder(folder / "run"))
    return folder / "run", folder / "out", publish_to_folder(parts, folder / "out")


def test_ndcg_is_that_of_ir_measures(made):
    run, out, _ = made
    qrels = list(ir_measures.read_trec_qrels(str(out / "qrels/test.trec")))
    figures = read_figures(run / "metrics.json")
    is_verified = {"test-verified"} & {one.set for one in figures}
    shown = "test-verified" if is_verified else "test"
    compared = [one for one in figures if (one.set, one.metric) == (shown, "ndcg")]
    assert len(compared) == 2 * 4
    for one in compared:
        hits = ir_measures.read_trec_run(str(out / "runs" / f"{one.retriever}.trec"))
        values = ir_measures.calc_aggregate([nDCG @ one.k], qrels, list(hits))
        assert values[nDCG @ one.k] == pytest.approx(one.value, abs=1e-9)
        assert one.n == len({line.query_id for line in qrels})


def test_the_headline_is_the_retriever_chosen_on_validation(made):
    run, out, published = made
    label = published.retriever.label
    card = (out / "README.md").read_text()
    assert f"the published retriever, {label}, has R@5" in card
    assert f"The default retriever, <strong>{label}</strong>" in (
        (run / "report.html").read_text()
    )
