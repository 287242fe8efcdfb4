"""A file that lists functions, as a source."""
