"""The loop: sample, write, check, polish, check, keep."""
