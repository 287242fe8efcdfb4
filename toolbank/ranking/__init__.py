"""From scores to hits, and from hits to metrics."""
