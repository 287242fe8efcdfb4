"""How good a bank is: figures of its requests, its labels, and what it covers."""
