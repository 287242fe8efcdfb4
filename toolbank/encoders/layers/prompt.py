"""Texts in prompts, within the tokens that a model reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toolbank.encoders.layers.config import TEXT
from toolbank.system.errors import InputError


def put_in_prompt(
    tokenizer: Any, texts: Sequence[str], prompt: str, most: int
) -> list[str]:
    """Each text in the prompt; of one that is too long for `most` tokens, the end is cut off.

    Raises:
        InputError: the prompt alone is too long.
    """
    if prompt == TEXT:
        return list(texts)
    room = most - len(tokenizer(prompt.replace(TEXT, ""))["input_ids"])
    if room < 1:
        raise InputError(
            f"encoder.prompt: it alone is longer than the {most} tokens that are read. "
            "Shorten it, or raise max_length if the model reads more."
        )
    found = tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"]
    return [
        prompt.replace(TEXT, text if len(ids) <= room else tokenizer.decode(ids[:room]))
        for text, ids in zip(texts, found, strict=True)
    ]
