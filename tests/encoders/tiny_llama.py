"""A small causal language model with random weights."""

import torch
from transformers import LlamaConfig, LlamaModel

from tests.tiny_models import tiny_tokenizer


def tiny_llama(folder, side="right", pad=True):
    """Write a Llama of 3 layers of 32 whose tokenizer pads on that side, or can't pad at all.

    The weights are the same each time.
    """
    tokens = tiny_tokenizer("unigram")
    tokens.padding_side = side
    if not pad:
        tokens.pad_token = None
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = LlamaModel(
            LlamaConfig(
                vocab_size=len(tokens),
                hidden_size=32,
                intermediate_size=64,
                num_hidden_layers=3,
                num_attention_heads=4,
                num_key_value_heads=2,
                max_position_embeddings=128,
            )
        )
    model.save_pretrained(folder)
    tokens.save_pretrained(folder)
    return folder
