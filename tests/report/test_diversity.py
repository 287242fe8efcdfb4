"""How diverse the requests are, by groups of their vectors."""

from tests.report.conftest import make_bank
from tests.report.page import text_of, write
from tests.tiny_models import tiny_encoder
from toolbank.retrievers import create_retriever
from toolbank.retrievers.settings import DescriptionsConfig


def test_the_page_tells_them(run, tmp_path):
    bank = make_bank(30)
    bank.save(run / "bank")
    encoder = {"model": str(tiny_encoder(tmp_path / "tiny"))}
    retriever = create_retriever(DescriptionsConfig(encoder=encoder))
    retriever.fit(bank)
    retriever.save(run / "models" / "descriptions")
    told = text_of(write(run), "#vectors")
    assert "30 requests in 12 groups by k-means" in told
    assert "What came of thing" in told
