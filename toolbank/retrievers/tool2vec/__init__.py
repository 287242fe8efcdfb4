"""Tool2Vec: a tool is the mean of the queries that use it (arXiv 2409.02141, section 4.1)."""
