"""BM25 over the tools' names and descriptions."""
