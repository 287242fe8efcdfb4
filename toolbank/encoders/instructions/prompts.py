"""What an instruction is put into before it is encoded."""

from toolbank.encoders.layers.config import ONE_WORD, TEXT

PROMPTS = {
    "plain": TEXT,
    "semantic": ONE_WORD,
    "pie": "The essence of an instruction is its task intention. With this in mind, given the "
    f"instruction below: {TEXT} after thinking step by step, the task of the given instruction is:",
}
"""By name: the instruction alone; the prompt of PromptEOL; that of PIE (arXiv 2409.19680)."""
