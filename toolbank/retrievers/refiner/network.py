"""The network of ToolRefiner: its input sequence, creation, loading and ONNX export."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from toolbank.bank.ranking import Hits, match_gold
from toolbank.encoders.config import Precision
from toolbank.encoders.onnx_export import export_network
from toolbank.retrievers.network import (
    drop_pooler,
    load_network,
    make_transformer,
    read_transformer,
)
from toolbank.retrievers.refiner import first_stage_features
from toolbank.retrievers.relevance import Relevance
from toolbank.retrievers.settings import ABSOLUTE, RELATIVE, check_refinable
from toolbank.training.text import Ids, pad

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


Row = Mapping[str, Any]


@dataclass(frozen=True)
class RefinerRows(Sequence[Row]):
    """A row a request: its token ids, and each candidate's vector and first stage's features.

    `candidates` [n, k] are places in `vectors` [n_tools, d], or -1 after a request's last one;
    `features` is [n, k, 2]. Vectors are put together when a row is taken: all of them at once
    would fill the memory.
    """

    ids: Sequence[Ids]
    candidates: NDArray[np.int64]
    features: NDArray[np.float32]
    vectors: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: Any) -> Any:
        candidates = self.found(index)
        return {
            "ids": self.ids[index],
            "vectors": self.vectors[candidates],
            "features": self.features[index, : len(candidates)],
        }

    def found(self, index: int) -> NDArray[np.int64]:
        """The candidates of a request, without the padding."""
        row: NDArray[np.int64] = self.candidates[index]
        return row[row >= 0]


@dataclass(frozen=True)
class TrainRows(RefinerRows):
    """Rows with `labels` [n, k] and `weights` [n], and with vectors made without the query.

    A label is 1 or 0, or -1 for a candidate that would serve in place of a needed tool. A query's
    own tools, `own_tools` [n, most] padded with -1, have the vectors `own` [n, most, d].
    """

    labels: NDArray[np.int8]
    weights: NDArray[np.float64]
    own_tools: NDArray[np.int64]
    own: NDArray[np.float32]

    def __getitem__(self, index: Any) -> Any:
        row = super().__getitem__(index)
        candidates = self.found(index)
        n = len(candidates)
        place, which = np.nonzero(candidates[:, None] == self.own_tools[index])
        row["vectors"][place] = self.own[index, which]
        return {**row, "labels": self.labels[index, :n], "weight": self.weights[index]}


def search_rows(
    ids: Sequence[Ids], hits: Hits, vectors: NDArray[np.float32]
) -> RefinerRows:
    """Rows of requests to be searched for, by a first stage's hits."""
    return RefinerRows(ids, hits[0], first_stage_features(hits[1]), vectors)


def train_rows(
    rows: RefinerRows,
    relevance: Relevance,
    own: NDArray[np.float32],
) -> TrainRows:
    """Label rows of the train queries, with hits of a first stage that has not seen them.

    Gold tools that the first stage missed are not added: a search misses them as well.
    """
    labels = match_gold(rows.candidates, relevance.tools).astype(np.int8)
    labels[match_gold(rows.candidates, relevance.spared)] = -1
    return TrainRows(
        **vars(rows),
        labels=labels,
        weights=relevance.weights,
        own_tools=relevance.tools,
        own=own,
    )


def collate(rows: Sequence[Row], pad_id: int) -> dict[str, torch.Tensor]:
    """Rows as the model's inputs, padded to the longest request and the most candidates."""
    most = max(len(row["features"]) for row in rows)
    batch = pad([row["ids"] for row in rows], pad_id)
    names = ("vectors", "features", *(["labels"] if "labels" in rows[0] else []))
    for name in names:
        batch[name] = torch.from_numpy(np.stack([_fill(r[name], most) for r in rows]))
    real = [_fill(np.ones(len(row["features"]), np.int64), most) for row in rows]
    batch["candidate_mask"] = torch.from_numpy(np.stack(real))
    if "weight" in rows[0]:
        batch["weights"] = torch.tensor([row["weight"] for row in rows])
    return batch


def _fill(values: NDArray[Any], length: int) -> NDArray[Any]:
    """`values` with zeros after them, up to `length` in the first axis."""
    missing = length - len(values)
    return np.pad(values, [(0, missing), *[(0, 0)] * (values.ndim - 1)])


# A model of transformers; which parts it has depends on its architecture.
Body = Any


def longest_request(body: Body) -> int:
    """Tokens that fit; the last of the body's positions is the tools'."""
    return int(body.config.max_position_embeddings) - _first_place(body) - 1


def read_together(
    body: Body,
    words: torch.Tensor,
    tools: torch.Tensor,
    word_mask: torch.Tensor,
    tool_mask: torch.Tensor,
) -> torch.Tensor:
    """Hidden states [b, n, hidden] at the tools, after one pass over words and tools.

    `words` [b, l, width] and `tools` [b, n, width] are input embeddings; the masks [b, l] and
    [b, n] are 1 where these are real. All tools have one position, whatever their order and the
    length of the request: the last absolute position of the body, or, with relative positions,
    just before the request. If the body has two token types, tools are of the second.
    """
    inputs = torch.cat([words, tools], dim=1)
    mask = torch.cat([word_mask, tool_mask], dim=1)
    n_words, n_tools = words.shape[1], tools.shape[1]
    second = int(body.config.type_vocab_size > 1)
    types = _row(n_words, n_tools, words.device, torch.zeros(n_words), second)
    given = {
        "inputs_embeds": inputs,
        "token_type_ids": types.expand(len(inputs), -1),
        "position_ids": _absolute(body, n_words, n_tools, words.device),
    }
    if body.config.model_type in ABSOLUTE:
        states = body(**given, attention_mask=mask).last_hidden_state
    else:
        # The model's own forward leaves no way to give relative positions.
        embedded = body.embeddings(**given, mask=mask)
        relative = _relative(body, n_words, n_tools, words.device)
        states = body.encoder(
            embedded, mask, output_hidden_states=False, relative_pos=relative
        ).last_hidden_state
    at_tools: torch.Tensor = states[:, n_words:]
    return at_tools


def _absolute(
    body: Body, n_words: int, n_tools: int, device: torch.device
) -> torch.Tensor:
    """Position ids [1, n_words + n_tools]."""
    places = torch.arange(n_words) + _first_place(body)
    last = int(body.config.max_position_embeddings) - 1
    return _row(n_words, n_tools, device, places, last)


def _relative(
    body: Body, n_words: int, n_tools: int, device: torch.device
) -> torch.Tensor:
    """Distances between all places, [n_words + n_tools] squared, as the encoder buckets them."""
    from transformers.models.deberta_v2.modeling_deberta_v2 import (
        make_log_bucket_position,
    )

    places = _row(n_words, n_tools, device, torch.arange(n_words), -1)[0]
    distances = places[:, None] - places[None, :]
    encoder = body.encoder
    if encoder.relative_attention and encoder.position_buckets > 0:
        distances = make_log_bucket_position(
            distances, encoder.position_buckets, encoder.max_relative_positions
        )
    return distances.long()


def _row(
    n_words: int, n_tools: int, device: torch.device, words: torch.Tensor, tool: int
) -> torch.Tensor:
    """A number for each word, and one for all tools, [1, n_words + n_tools]."""
    row = torch.full((1, n_words + n_tools), tool, dtype=torch.long, device=device)
    row[0, :n_words] = words
    return row


def _first_place(body: Body) -> int:
    """The position id of the first token: RoBERTa's kind counts from behind its padding's."""
    if body.config.model_type in ("bert", *RELATIVE):
        return 0
    return int(body.config.pad_token_id) + 1


_SPREAD = 0.2
_FEATURES = 2


class RefinerModel(nn.Module):
    """A logit for each candidate of a request, all of them from one pass of the body.

    A candidate's input is W v, with v [dimension] its tool's vector and W drawn from
    N(0, 0.2). Its logit is h w + s u + b, with h the state at its place and s [2] its features
    in the first stage (`first_stage_features`). At the start w is zero.
    """

    def __init__(self, body: Body, dimension: int) -> None:
        super().__init__()
        width = body.get_input_embeddings().embedding_dim
        self.body = body
        self.project = nn.Linear(dimension, width, bias=False)
        self.head = nn.Linear(body.config.hidden_size, 1, bias=False)
        self.first_stage = nn.Linear(_FEATURES, 1)
        nn.init.normal_(self.project.weight, std=_SPREAD)
        nn.init.zeros_(self.head.weight)

    def start_from(self, slopes: torch.Tensor, intercept: float) -> None:
        """Set u [2] and b, the log-odds by the first stage before any training."""
        with torch.no_grad():
            self.first_stage.weight.copy_(slopes[None])
            self.first_stage.bias.fill_(intercept)

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        vectors: torch.Tensor,
        features: torch.Tensor,
        candidate_mask: torch.Tensor,
        labels: torch.Tensor | None = None,
        weights: torch.Tensor | None = None,
    ) -> dict[str, torch.Tensor]:
        """Logits [b, n], and with `labels` [b, n] the loss: binary cross-entropy.

        `input_ids` and `attention_mask` [b, l] are the request's tokens, `vectors`
        [b, n, dimension] and `features` [b, n, 2] the candidates'. The loss is the mean over the
        candidates, weighted by their requests' `weights` [b]. It skips candidates whose
        `candidate_mask` [b, n] is 0 or whose label is -1.
        """
        words = self.body.get_input_embeddings()(input_ids)
        tools = self.project(vectors)
        states = read_together(self.body, words, tools, attention_mask, candidate_mask)
        # In 32 bits: scores of similar candidates differ by less than 16 bits resolve.
        with torch.autocast(states.device.type, enabled=False):
            logits = self.head(states.float()) + self.first_stage(features.float())
            logits = logits[..., 0]
        if labels is None or weights is None:
            return {"logits": logits}
        losses = nn.functional.binary_cross_entropy_with_logits(
            logits, labels.float(), reduction="none"
        )
        counts = candidate_mask * (labels >= 0) * weights.float()[:, None]
        # A batch may be of requests for which the first stage found nothing.
        total = counts.sum().clamp_min(1e-9)
        return {"loss": (losses * counts).sum() / total, "logits": logits}


def make_refiner(
    encoder: str, dimension: int
) -> tuple[RefinerModel, PreTrainedTokenizerBase]:
    """A network still to be trained on an encoder's transformer.

    Raises:
        InputError: there is no such encoder, it cannot be read, or its architecture does not
            serve.
    """
    from transformers import AutoModel

    body, tokenizer = read_transformer(encoder, lambda _: AutoModel)
    check_refinable(body.config.to_dict(), encoder)
    drop_pooler(body)
    return RefinerModel(body, dimension), tokenizer


def load_refiner(
    folder: Path, dimension: int
) -> tuple[RefinerModel, PreTrainedTokenizerBase]:
    """Read a trained network.

    Raises:
        InputError: a file is missing or damaged, or its weights are another network's.
    """
    from transformers import AutoModel

    def make(config: Any) -> RefinerModel:
        check_refinable(config.to_dict(), str(folder))
        body = make_transformer(config, AutoModel)
        drop_pooler(body)
        return RefinerModel(body, dimension)

    return load_network(folder, make)


class _Logits(torch.nn.Module):
    """The network's logits alone."""

    def __init__(self, model: RefinerModel) -> None:
        super().__init__()
        self.model = model

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        vectors: torch.Tensor,
        features: torch.Tensor,
        candidate_mask: torch.Tensor,
    ) -> torch.Tensor:
        logits: torch.Tensor = self.model(
            input_ids, attention_mask, vectors, features, candidate_mask
        )["logits"]
        return logits


def export_refiner(
    folder: Path,
    model: RefinerModel,
    tokenizer: PreTrainedTokenizerBase,
    max_length: int,
    width: int,
    precision: Precision,
) -> None:
    """Write the network for `OnnxNetwork`; it also reads the candidates, as the model does."""
    dims = {1: "candidates"}
    export_network(
        folder,
        _Logits(model),
        tokenizer,
        max_length,
        width,
        precision,
        {
            "vectors": (torch.zeros(1, 5, width), dims),
            "features": (torch.zeros(1, 5, 2), dims),
            "candidate_mask": (torch.ones(1, 5, dtype=torch.long), dims),
        },
    )
