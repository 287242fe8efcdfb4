"""A request's answer does not depend on others in flight."""

import threading
from urllib.parse import quote

import pytest

from tests.retrievers.conftest import bank  # noqa: F401 - a fixture
from tests.retrievers.small_methods import configure, encoder_for, fit
from tests.search.serve.servers import serving
from toolbank.search.finder import Finder


@pytest.mark.slow
def test_in_8_bits_answers_are_the_same_under_load(bank, tmp_path):  # noqa: F811
    queries = [query.query for query in bank.queries][:10]
    encoder = encoder_for(tmp_path / "encoder", bank, *queries)
    retriever = fit("mlc", configure(encoder), bank)
    Finder({"mlc": retriever}, bank.tools).pack(
        tmp_path / "finder", precisions=("int8",)
    )
    addresses = [f"/search?k=6&min_score=0&q={quote(query)}" for query in queries]
    with serving(tmp_path / "finder") as server:
        alone = [server.ask(address).json for address in addresses]
        assert len({str(answer) for answer in alone}) > 1
        differing = []

        def ask(start):
            for n in range(len(addresses)):
                place = (start * 3 + n) % len(addresses)
                answer = server.ask(addresses[place]).json
                if answer != alone[place]:
                    differing.append((answer, alone[place]))

        threads = [threading.Thread(target=ask, args=(n,)) for n in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        batch = server.ask("/search", {"queries": queries, "k": 6, "min_score": 0})
    assert not differing
    assert batch.json["results"] == alone
