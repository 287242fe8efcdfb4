"""How calls are bounded: how many at once, how fast, how much in all, and until when."""
