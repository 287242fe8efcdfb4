"""How well retrievers find the tools of labelled requests."""
