"""How the crawler asks: whom, how gently, and what it keeps of the answers."""
