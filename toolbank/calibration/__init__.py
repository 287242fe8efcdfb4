"""What a retriever's scores mean: how likely a tool is needed, and whether any fits."""
