"""Prompts around texts that are encoded, and the poolings of their tokens."""

from typing import Literal

Pooling = Literal["mean", "sum", "last", "mask"]
"""How the states of a text's tokens become one vector; "last" is that of its last token."""

TEXT = "{text}"
ONE_WORD = 'This sentence: "{text}" means in one word:'
"""The prompt of PromptEOL (arXiv 2307.16645), whose last token's state is the vector."""

PROMPTS = {
    "plain": TEXT,
    "semantic": ONE_WORD,
    "pie": "The essence of an instruction is its task intention. With this in mind, given the "
    f"instruction below: {TEXT} after thinking step by step, the task of the given instruction is:",
}
"""By name: the instruction alone; the prompt of PromptEOL; that of PIE (arXiv 2409.19680)."""
