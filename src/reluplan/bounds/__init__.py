"""Proven bounds on states, actions and neurons."""
