"""Several retrievers' scores, standardised and summed."""
