"""What papers measure of their encoders, measured here: one folder a family."""
