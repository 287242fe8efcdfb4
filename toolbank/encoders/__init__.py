"""Text to vectors: a service that stages use."""
