"""Sentence-transformers models, as they are or fine-tuned."""
