"""A packed finder: what is needed to search, and nothing else; written, opened, searched."""
