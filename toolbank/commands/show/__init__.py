"""How a query came to be."""
