"""Training on transformers' and sentence-transformers' Trainers: a service that retrievers use."""
