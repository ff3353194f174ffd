"""The proof by back-substitution through the whole plan, with optimised slopes and multipliers (α-CROWN)."""
