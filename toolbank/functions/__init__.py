"""Tools in the forms in which agents and APIs hand them on, read and written."""
