"""Proven bounds on states, actions and units, and which plans they hold for."""
