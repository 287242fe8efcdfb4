"""Installed Python packages as a source of tools, by introspection."""
