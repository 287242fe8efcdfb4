"""A look at what the writer is asked and answers."""
