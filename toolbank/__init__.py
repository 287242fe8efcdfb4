"""Turn an API reference into a tool-retrieval dataset, and the dataset into a retriever."""

__version__ = "0.1.0"
