"""Transition data: read, check, write."""
