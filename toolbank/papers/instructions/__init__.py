"""Instructions by the task that they ask for (PIE, arXiv 2409.19680)."""
