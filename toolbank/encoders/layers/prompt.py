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
    filled = [prompt.replace(TEXT, text) for text in texts]
    lengths = map(len, tokenizer(filled, verbose=False)["input_ids"])
    return [
        one if length <= most else _shorten(tokenizer, text, prompt, room, most)
        for one, text, length in zip(filled, texts, lengths, strict=True)
    ]


def _shorten(tokenizer: Any, text: str, prompt: str, room: int, most: int) -> str:
    """The prompt with the beginning of a text.

    What the text takes shows in the whole alone: tokens grow together at its ends, and half a
    character takes more than it did.
    """
    ids = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
    while True:
        part = tokenizer.decode(ids[:room]).rstrip("\ufffd")
        filled = prompt.replace(TEXT, part)
        over = len(tokenizer(filled, verbose=False)["input_ids"]) - most
        if over <= 0 or not part:
            return filled
        room = max(0, room - over)
