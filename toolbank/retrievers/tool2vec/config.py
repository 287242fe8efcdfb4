"""Configuration of Tool2Vec."""

from typing import ClassVar, Literal

from pydantic import Field

from toolbank.retrievers.kind import DenseConfig, RetrieverKind


class Tool2VecConfig(DenseConfig):
    """Cosine between the request and the mean of the queries that use a tool."""

    score: ClassVar[str] = (
        "the cosine of the request and the mean of a tool's requests, from -1 to 1"
    )

    type: Literal["tool2vec"] = "tool2vec"
    description_weight: float = Field(
        default=2.0, ge=0, description="queries that the description counts for"
    )
    centre: bool = Field(
        default=True, description="take out what all queries have in common"
    )


KIND = RetrieverKind(
    Tool2VecConfig, "toolbank.retrievers.tool2vec.retriever:Tool2VecRetriever"
)
