"""Which class is which method; a method's libraries are read when it is used."""

from importlib import import_module
from typing import Any

METHODS = {
    "bm25": "bm25:Bm25Retriever",
    "descriptions": "descriptions:DescriptionsRetriever",
    "nearest": "nearest:NearestRetriever",
    "tool2vec": "tool2vec:Tool2VecRetriever",
    "mlc": "mlc.retriever:MlcRetriever",
    "refiner": "refiner.retriever:RefinerRetriever",
    "protip": "protip.retriever:ProtipRetriever",
    "nnn": "nnn.retriever:NnnRetriever",
    "decomposition": "decomposition.retriever:DecompositionRetriever",
}


def find_method(kind: str) -> Any:
    """The class of a method in `METHODS`."""
    module, _, name = METHODS[kind].partition(":")
    return getattr(import_module(f"toolbank.retrievers.{module}"), name)
