"""Planning: the next step of a request, its tool named, by a causal language model."""
