"""Cosine between the request and the tools' embedded descriptions."""
