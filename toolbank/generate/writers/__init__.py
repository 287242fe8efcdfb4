"""Engines that write queries and answer nothing else."""
