"""Types as documentation writes them, as JSON Schema."""
