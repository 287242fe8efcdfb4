"""Fine-tuning of sentence encoders on queries and the tools that they use."""
