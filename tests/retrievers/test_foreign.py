from importlib import import_module

from toolbank.retrievers import create_retriever

KIND = """
    from typing import Literal

    from toolbank.retrievers.bm25 import Bm25Retriever
    from toolbank.retrievers.kind import RetrieverKind
    from toolbank.retrievers.settings import Bm25Config


    class Config(Bm25Config):
        type: Literal["odd"] = "odd"


    class Odd(Bm25Retriever):
        pass


    KIND = RetrieverKind(Config, "odd_method:Odd")
"""


def test_a_retriever_of_another_package_is_found_by_its_entry_point(
    install_package, bank
):
    install_package("toolbank.retrievers", "odd_method", KIND, odd="KIND")
    retriever = create_retriever(import_module("odd_method").Config())
    retriever.fit(bank)
    (best,) = retriever.search(["start a song"], 1)[0][0]
    assert retriever.tools[best] == "music.play"
