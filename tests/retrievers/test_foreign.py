"""A retriever of another package."""

from importlib import import_module

import pytest

from toolbank.retrievers import create_retriever
from toolbank.system.errors import InputError

KINDS = """
    from typing import Literal

    from toolbank.retrievers.bm25 import Bm25Retriever
    from toolbank.retrievers.kind import RetrieverKind
    from toolbank.retrievers.settings import Bm25Config


    class Config(Bm25Config):
        type: Literal["odd"] = "odd"


    class Odd(Bm25Retriever):
        pass


    class Other:
        def __init__(self, config):
            pass


    KIND = RetrieverKind(Config, "odd_method:{name}")
"""


@pytest.fixture
def create(install_package):
    def create(name):
        source = KINDS.format(name=name)
        install_package("toolbank.retrievers", "odd_method", source, odd="KIND")
        return create_retriever(import_module("odd_method").Config())

    return create


def test_it_is_found_by_its_entry_point_and_searched_as_ours(create, bank):
    retriever = create("Odd")
    retriever.fit(bank)
    (best,) = retriever.search(["start a song"], 1)[0][0]
    assert retriever.tools[best] == "music.play"


def test_a_class_that_is_no_retriever_is_refused(create):
    with pytest.raises(InputError, match="odd_method:Other"):
        create("Other")
