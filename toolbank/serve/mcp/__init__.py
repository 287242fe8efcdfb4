"""A packed finder as a server of the Model Context Protocol."""
