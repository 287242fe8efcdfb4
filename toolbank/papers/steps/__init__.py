"""Encoder of reasoning steps: chains are told from their perturbations (ROSCOE)."""
