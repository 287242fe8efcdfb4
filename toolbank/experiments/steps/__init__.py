"""Chains of reasoning steps against their perturbations, as ROSCOE trains its encoder."""
