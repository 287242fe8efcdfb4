"""Unseen tools: those that no train query uses, and that only their descriptions can tell of.

What a method has learnt of the other tools is another kind of score than the likeness of a
description, so each kind of method has a way to bring the two together:

- `prior`: the log-odds that a request needs a tool, by its description alone.
- `mixing` (mlc): a classifier's log-odds, drawn to the prior the more, the less a tool is used.
- `alignment` (tool2vec, nearest): similarities to descriptions brought to the scale of scores.
- `ranks` (nnn): unseen tools keep the ranks that the first stage gives them.
- `merging` (protip): unseen tools by the prior, among hits by the log-odds of their ranks.
"""
