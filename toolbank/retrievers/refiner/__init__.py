"""ToolRefiner: a request and its candidates in one pass (arXiv 2409.02141, section 4.3)."""
