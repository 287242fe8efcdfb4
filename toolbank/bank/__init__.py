"""The records, files and metrics of a tool-retrieval dataset."""
