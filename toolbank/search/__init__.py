"""A retriever with what is known of its tools: asked, added to, taken from, saved, and read."""
