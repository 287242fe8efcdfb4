"""The hidden states of a language model as vectors of texts."""
