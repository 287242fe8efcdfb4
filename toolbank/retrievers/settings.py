"""The settings of the methods that do not ask a language model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, model_validator

from toolbank.encoders import AnyEncoder
from toolbank.encoders.config import EncoderConfig
from toolbank.encoders.sentence import EncoderTraining, PairKind, SentenceConfig
from toolbank.retrievers.kind import (
    Baseline,
    DenseConfig,
    RetrieverConfig,
    RetrieverKind,
    TwoStageConfig,
)
from toolbank.system.errors import InputError
from toolbank.training.config import TrainingConfig, TrainingPlan, count_steps
from toolbank.training.ranks import world_size

if TYPE_CHECKING:
    from toolbank.bank.bank import Bank


class Bm25Config(RetrieverConfig):
    """BM25 over the tools' names and descriptions, and optionally their train queries."""

    lexical: ClassVar[bool] = True
    score: ClassVar[str] = "BM25, a sum over the words in common: 0 without any"

    type: Literal["bm25"] = "bm25"
    requests: bool = Field(
        default=False,
        description="also index the train queries of each tool",
    )

    @property
    def folds(self) -> int:
        """More with requests, because indexing is fast."""
        return 10 if self.requests else super().folds

    @property
    def needs_queries(self) -> bool:
        """Only to index them."""
        return self.requests

    @property
    def baseline(self) -> Baseline | None:
        """The lexical baseline, if it indexes no requests."""
        return None if self.requests else "words"


BM25 = RetrieverKind(Bm25Config, "toolbank.retrievers.bm25:Bm25Retriever")


class DescriptionsTraining(EncoderTraining):
    """Fine-tune the encoder: move vectors of requests nearer to the descriptions of their tools."""

    pairs: tuple[PairKind, ...] = Field(
        default=("query-description",),
        min_length=1,
        description="positive pairs",
    )


class DescriptionsConfig(DenseConfig):
    """Cosine between the request and the tools' embedded descriptions."""

    score: ClassVar[str] = "the cosine of request and description, from -1 to 1"

    type: Literal["descriptions"] = "descriptions"
    text: Literal["summary", "full"] = Field(
        default="summary",
        description="full: also description and parameters",
    )
    training: DescriptionsTraining | None = Field(
        default=None, description="fine-tune the encoder; unset: frozen"
    )

    @property
    def needs_queries(self) -> bool:
        """Only to train its encoder."""
        return self.training is not None

    @property
    def baseline(self) -> Baseline | None:
        """The baseline without queries, if its encoder is frozen."""
        return None if self.training else "descriptions"


DESCRIPTIONS = RetrieverKind(
    DescriptionsConfig,
    "toolbank.retrievers.dense:DescriptionsRetriever",
)


class NearestConfig(RetrieverConfig):
    """The tools of the most similar train queries."""

    baseline: ClassVar[Baseline] = "nearest neighbours"
    score: ClassVar[str] = (
        "a tool's share of what similar requests used: 0 or less without any"
    )

    type: Literal["nearest"] = "nearest"
    by: Literal["embedding", "bm25"] = Field(
        default="embedding",
        description="how similarity is measured; bm25 needs no encoder",
    )
    encoder: AnyEncoder = SentenceConfig()
    neighbours: int = Field(
        default=10, ge=1, description="number of voting train queries"
    )

    @property
    def encoders(self) -> tuple[EncoderConfig, ...]:
        """None by BM25."""
        return () if self.by == "bm25" else (self.encoder,)

    @property
    def lexical(self) -> bool:
        """By the words of train queries, if not by an encoder."""
        return self.by == "bm25"


NEAREST = RetrieverKind(NearestConfig, "toolbank.retrievers.nearest:NearestRetriever")


class Tool2VecConfig(DenseConfig):
    """Cosine between the request and, for each tool, the mean of the train queries that need it."""

    score: ClassVar[str] = (
        "the cosine of the request and the mean of a tool's requests, from -1 to 1"
    )

    type: Literal["tool2vec"] = "tool2vec"
    description_weight: float = Field(
        default=2.0, ge=0, description="how many queries the description counts as"
    )
    centre: bool = Field(default=True, description="subtract the mean of all queries")


TOOL2VEC = RetrieverKind(
    Tool2VecConfig, "toolbank.retrievers.tool2vec:Tool2VecRetriever"
)


_LOGIT = (
    "a learned logit that the request needs the tool: compare it within one search, where the "
    "right tool may well be below 0"
)
# Training of the last layer alone: fast, because the features do not change.
_HEAD_EPOCHS, _HEAD_BATCH, _HEAD_LEARNING_RATE = 20, 128, 5e-3


def _require_transformer(settings: Mapping[str, Any], name: str) -> None:
    if settings.get("model_type", "model2vec") == "model2vec":
        raise InputError(
            f"encoder.model: {name} has no transformer (a static embedding, perhaps), and this "
            "method reads a transformer's states. Use another encoder; or `descriptions`, "
            "`nearest`, `tool2vec`, or `mlc` with `frozen: true`."
        )


ABSOLUTE = ("bert", "camembert", "roberta", "xlm-roberta")
RELATIVE = ("deberta-v2",)


def check_refinable(settings: Mapping[str, Any], name: str) -> None:
    """Require an encoder whose positions can be given from outside.

    Raises:
        InputError: it is of another architecture, or has a convolution over the sequence.
    """
    kind = settings.get("model_type")
    if kind not in (*ABSOLUTE, *RELATIVE):
        raise InputError(
            f"encoder.model: {name} is of the type {kind!r}; the refiner reads tools with "
            f"{', '.join((*ABSOLUTE, *RELATIVE))}."
        )
    if settings.get("conv_kernel_size", 0) > 0:
        raise InputError(
            f"encoder.model: {name} has a convolution, by which a tool's score would depend on "
            "the other candidates. Use another encoder, such as DeBERTa-v3."
        )


_OF_A_HEAD = {"batch_size": 128, "learning_rate": 2e-3}


class MlcTraining(TrainingConfig):
    """The settings of the MLC paper, with fewer epochs (the paper has 100 on ToolBank, 30 on ToolBench).

    With `frozen`, the default learning rate is 2e-3 and the default batch size 128.
    """

    epochs: float = Field(default=20, gt=0, description="passes over the train queries")


class MlcConfig(RetrieverConfig):
    """Classify the request, with one class per tool."""

    score: ClassVar[str] = _LOGIT

    type: Literal["mlc"] = "mlc"
    encoder: SentenceConfig = SentenceConfig()
    frozen: bool = Field(
        default=False,
        description="train only a head on frozen vectors",
    )
    description_weight: float | None = Field(
        default=None,
        ge=0,
        description=(
            "weight of Tool2Vec's score for a tool, as a number of queries; unset: chosen "
            "on validation queries, or 64 without these"
        ),
    )
    training: MlcTraining = MlcTraining()

    def check_transformer(self, settings: Mapping[str, Any], name: str) -> None:
        """Require a transformer, unless it is frozen."""
        if not self.frozen:
            _require_transformer(settings, name)

    @property
    def folds(self) -> int:
        """More with a frozen encoder, because the training is fast."""
        return 5 if self.frozen else super().folds

    def plan_trainings(self, bank: Bank, seed: int) -> list[TrainingPlan]:  # noqa: ARG002
        """That of its last layer alone, unless it is frozen, and that of all weights."""
        from toolbank.retrievers.relevance import train_relevance

        uses = train_relevance(bank).tools
        labelled = int((uses >= 0).any(axis=1).sum())
        if not labelled:
            return []
        own = TrainingPlan(self.label, count_steps(labelled, self.training))
        if self.frozen:
            return [own]
        last = count_steps(labelled, suit_the_last_layer(self.training))
        return [TrainingPlan(name_last_layer(self), last), own]

    @model_validator(mode="before")
    @classmethod
    def _suit_the_head(cls, data: Any) -> Any:
        if not isinstance(data, dict) or data.get("frozen") is not True:
            return data
        training = data.get("training", {})
        if isinstance(training, MlcTraining):
            training = training.model_dump(exclude_unset=True)
        if not isinstance(training, dict):
            return data
        return {**data, "training": {**_OF_A_HEAD, **training}}


def name_last_layer(config: MlcConfig) -> str:
    """Name the training of the last layer alone."""
    return f"last layer of {config.label}"


def suit_the_last_layer(training: TrainingConfig) -> TrainingConfig:
    """Adapt the settings to the training of the last layer alone."""
    return training.model_copy(
        update={
            "epochs": _HEAD_EPOCHS,
            "batch_size": max(1, _HEAD_BATCH // world_size()),
            "accumulation": 1,
            "learning_rate": _HEAD_LEARNING_RATE,
        }
    )


MLC = RetrieverKind(MlcConfig, "toolbank.retrievers.mlc.retriever:MlcRetriever")


class RefinerTraining(TrainingConfig):
    """Defaults for an encoder of MiniLM's size and a few thousand queries.

    The paper trains DeBERTa-v3-xsmall for 30 epochs, with a learning rate of 8e-4, batches of
    32, a weight decay of 0.01, 100 warm-up steps and a cosine schedule.
    """

    epochs: float = Field(default=10, gt=0, description="passes over the train queries")
    learning_rate: float = Field(default=3e-4, gt=0, description="peak")
    schedule: Literal["linear", "cosine", "constant"] = Field(
        default="cosine", description="learning rate after warm-up"
    )


class RefinerConfig(TwoStageConfig):
    """Rerank the top hits of another retriever, by reading them together with the request."""

    score: ClassVar[str] = _LOGIT

    type: Literal["refiner"] = "refiner"
    first_stage: str = Field(default="tool2vec", description="name of a retriever")
    vectors: str = Field(
        default="tool2vec",
        description="name of the retriever whose tool vectors it reads: tool2vec or descriptions",
    )
    candidates: int = Field(default=64, ge=1, description="number of hits to rerank")
    encoder: SentenceConfig = SentenceConfig()
    training: RefinerTraining = RefinerTraining()

    def check_transformer(self, settings: Mapping[str, Any], name: str) -> None:
        """Require a transformer that can read tools."""
        _require_transformer(settings, name)
        check_refinable(settings, name)

    @property
    def needs(self) -> tuple[str, ...]:
        """Its first stage, and whose vectors it reads."""
        return tuple(dict.fromkeys((self.first_stage, self.vectors)))

    @property
    def needs_vectors(self) -> str:
        """Whose vectors it reads."""
        return self.vectors

    @property
    def learns_from(self) -> str:
        """Its first stage."""
        return self.first_stage

    def plan_trainings(self, bank: Bank, seed: int) -> list[TrainingPlan]:  # noqa: ARG002
        """That of its network."""
        queries = len(bank.train_queries)
        return [TrainingPlan(self.label, count_steps(queries, self.training))]


REFINER = RetrieverKind(
    RefinerConfig, "toolbank.retrievers.refiner.retriever:RefinerRetriever"
)


class ProtipTraining(TrainingConfig):
    """Defaults of ProTIP."""

    epochs: float = Field(default=10, gt=0, description="passes over the train queries")
    learning_rate: float = Field(default=1e-4, gt=0, description="peak")


class ProtipConfig(RetrieverConfig):
    """Find the tools of a request in the order of calls; needs queries whose tools are ordered.

    The paper uses BERT-base-uncased and random negatives, and does not give the margin. Here the
    plans of a batch share their random negatives, so that no tool comes near a request without
    having been its negative. Hard negatives alone are mined too rarely for a short training.
    """

    needs_order: ClassVar[bool] = True

    score: ClassVar[str] = (
        "the log-odds that the hit is right: above 0 more likely than not"
    )

    type: Literal["protip"] = "protip"
    encoder: SentenceConfig = SentenceConfig()
    margin: float = Field(
        default=0.35,
        gt=0,
        description="margin, as a multiple of the mean query-tool distance before training",
    )
    negatives: Literal["random", "hard"] = Field(
        default="random",
        description="hard: nearest wrong tools, mined each epoch",
    )
    steps: int = Field(
        default=6, ge=1, description="largest number of steps of a search"
    )
    training: ProtipTraining = ProtipTraining()

    def check_transformer(self, settings: Mapping[str, Any], name: str) -> None:
        """Require a transformer, because it averages token states."""
        _require_transformer(settings, name)

    def plan_trainings(self, bank: Bank, seed: int) -> list[TrainingPlan]:
        """That of its encoder.

        Raises:
            InputError: the order of the bank's tools means nothing.
        """
        from toolbank.retrievers.protip.plans import divide_plans

        plans, _ = divide_plans(bank, seed)
        return [TrainingPlan(self.label, count_steps(len(plans), self.training))]


PROTIP = RetrieverKind(
    ProtipConfig, "toolbank.retrievers.protip.retriever:ProtipRetriever"
)


class NnnConfig(TwoStageConfig):
    """Approximate the request's vector by a weighted sum of a few tools' vectors.

    Strengths that are unset are chosen on the bank's validation queries; without any, they are
    0.3 and 3.
    """

    needs_queries: ClassVar[bool] = False
    score: ClassVar[str] = (
        "1 + a tool's weight in what explains the request; of others, below 1, the cosine"
    )

    type: Literal["nnn"] = "nnn"
    first_stage: str = Field(
        default="tool2vec", description="name of a dense retriever"
    )
    candidates: int = Field(default=64, ge=1, description="number of hits to weigh")
    l1: float | None = Field(
        default=None,
        ge=0,
        description="L1 penalty; the higher, the fewer tools have a weight",
    )
    l2: float | None = Field(
        default=None,
        ge=0,
        description="L2 penalty; the higher, the more even the weights",
    )

    @property
    def needs_vectors(self) -> str:
        """Its first stage."""
        return self.first_stage


NNN = RetrieverKind(NnnConfig, "toolbank.retrievers.nnn:NnnRetriever")


class FusionConfig(TwoStageConfig):
    """The sum of several retrievers' scores, each brought to one scale: hybrid search."""

    needs_queries: ClassVar[bool] = False
    score: ClassVar[str] = "mean z-score; compare scores only within one search"
    scores_compare: ClassVar[bool] = False
    combines: ClassVar[bool] = True

    type: Literal["fusion"] = "fusion"
    first_stage: str = Field(default="tool2vec", description="name of a retriever")
    beside: tuple[str, ...] = Field(
        default=("bm25",),
        min_length=1,
        description="names of further retrievers, of equal weight",
    )
    candidates: int = Field(
        default=100,
        ge=1,
        description="number of hits of each retriever whose scores are summed; all other tools come last",
    )

    @property
    def needs(self) -> tuple[str, ...]:
        """All whose scores it sums up."""
        return tuple(dict.fromkeys((self.first_stage, *self.beside)))


FUSION = RetrieverKind(FusionConfig, "toolbank.retrievers.two_stage:FusionRetriever")
