"""Training and evaluating encoders as their papers do: one file a family."""
