"""How calls are made: how many at once, how often again, how much in all, and until when."""
