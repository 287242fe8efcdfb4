"""A folder of Python source, read without running any of it."""
