"""Verified labels: candidates pooled once, graded by a model, and checks that need none."""
