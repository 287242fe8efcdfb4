"""MLC: every tool is a label of the request (arXiv 2409.02141, section 4.2)."""
