"""What a run would do, and what it would cost."""
