"""A request's tokens and its candidates in one sequence, in which the candidates have no order."""

from __future__ import annotations

from typing import Any

import torch

from toolbank.system.errors import InputError

# A model of transformers; which parts it has depends on its architecture.
Body = Any

ABSOLUTE = ("bert", "camembert", "roberta", "xlm-roberta")
RELATIVE = ("deberta-v2",)


def check_body(body: Body, name: str) -> None:
    """Demand an encoder whose positions can be given from outside.

    Raises:
        InputError: it is of another architecture, or has a convolution over the sequence.
    """
    kind = body.config.model_type
    if kind not in (*ABSOLUTE, *RELATIVE):
        raise InputError(
            f"encoder.model: {name} is of the type {kind!r}; the refiner reads tools with "
            f"{', '.join((*ABSOLUTE, *RELATIVE))}."
        )
    if getattr(body.config, "conv_kernel_size", 0) > 0:
        raise InputError(
            f"encoder.model: {name} has a convolution, by which a tool's score would depend on "
            "the candidates beside it. Take another encoder, such as DeBERTa-v3."
        )


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
    [b, n] are 1 where those are real. All tools stand at one place, whatever their order and
    however long the request and its padding: with absolute positions at the last one that the
    body has, with relative ones just before the request. Where the body knows two types of
    tokens, tools are of the second.
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
