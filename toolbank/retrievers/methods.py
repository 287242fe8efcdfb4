"""Which class is which method."""

from typing import Any

from toolbank.retrievers.bm25 import Bm25Retriever
from toolbank.retrievers.descriptions import DescriptionsRetriever
from toolbank.retrievers.nearest import NearestRetriever
from toolbank.retrievers.tool2vec import Tool2VecRetriever

METHODS: dict[str, Any] = {
    "bm25": Bm25Retriever,
    "descriptions": DescriptionsRetriever,
    "nearest": NearestRetriever,
    "tool2vec": Tool2VecRetriever,
}
