"""`toolbank planner`."""
