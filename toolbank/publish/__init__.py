"""A bank as others load it: parquet, qrels, a card, its retriever; in a folder or on a hub."""
