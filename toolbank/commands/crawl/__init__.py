"""Reading a site alone, and comparing two readings."""
