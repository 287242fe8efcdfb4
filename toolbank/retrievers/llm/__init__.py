"""A language model as last stage: it orders a first stage's best hits, or drops them."""
