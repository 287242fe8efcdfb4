"""What a retriever's scores mean: how likely a tool is needed, and when nothing fits."""
