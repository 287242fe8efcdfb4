"""Banks beside each other."""
