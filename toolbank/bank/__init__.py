"""What a tool-retrieval dataset is made of."""
