"""Who answers chat requests: calls within bounds, and what they cost."""
