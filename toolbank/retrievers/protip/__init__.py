"""ProTIP: one tool after the other, each subtracted from the request (arXiv 2312.10332)."""
