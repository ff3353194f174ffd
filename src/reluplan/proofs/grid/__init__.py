"""The proof by a value function on a grid that no plan can beat."""
