"""Unseen tools: those that no train query uses, and that only their descriptions can tell of.

One rule serves all methods: `DescriptionOdds` gives the log-odds that a request needs a tool by
its description, and places the tool where a seen one of the same log-odds stands. A method's own
scores are log-odds (mlc, protip), or what log-odds a score means is fitted to train queries that
have not been seen (tool2vec, nearest). What reorders the hits of another (refiner, nnn) leaves
unseen tools at the places that they have there.
"""
