"""Proofs: upper bounds on the total reward of every plan, each method in a file of its own."""
