"""A bank in the formats of others."""
