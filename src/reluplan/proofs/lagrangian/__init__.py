"""The proof by Lagrangian decomposition over time."""
