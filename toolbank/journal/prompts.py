"""Prompts made small: those of a step have most of their text in common."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable

from toolbank.chat.chat import Message

# With a dictionary this takes half the bytes of the best level without, in a fifth of the time.
_LEVEL = 1


def encode(messages: Iterable[Message]) -> bytes:
    """Messages as bytes: a line of JSON with roles and lengths, then the contents as they are."""
    rows = [(message.role, message.content) for message in messages]
    head = json.dumps([[role, len(content)] for role, content in rows])
    return "".join([head, "\n", *(content for _, content in rows)]).encode()


def decode(encoded: bytes) -> list[dict[str, str]]:
    """The messages, each with `role` and `content`.

    Raises:
        ValueError: not made by `encode`.
    """
    head, _, contents = encoded.decode().partition("\n")
    messages, start = [], 0
    for role, length in json.loads(head):
        content = contents[start : start + length]
        messages.append({"role": role, "content": content})
        start += length
    if start != len(contents):
        raise ValueError("the prompt is not whole")
    return messages


def compress(content: bytes, dictionary: bytes | None) -> bytes:
    """Compress with zlib, where given against a preset dictionary that is like the content."""
    if dictionary is None:
        return zlib.compress(content, _LEVEL)
    packer = zlib.compressobj(_LEVEL, zdict=dictionary)
    return packer.compress(content) + packer.flush()


def decompress(packed: bytes, dictionary: bytes | None) -> bytes:
    """What `compress` was given.

    Raises:
        ValueError: not made by `compress` with this dictionary.
    """
    try:
        if dictionary is None:
            return zlib.decompress(packed)
        return zlib.decompressobj(zdict=dictionary).decompress(packed)
    except zlib.error as error:
        raise ValueError(str(error)) from error
