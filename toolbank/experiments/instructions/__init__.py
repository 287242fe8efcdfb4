"""The instruction embeddings of PIE (arXiv 2409.19680)."""
