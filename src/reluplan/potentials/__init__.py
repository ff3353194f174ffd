"""Reward potentials: bounds of a step's reward by the activation pattern of its ReLUs (Say, Sanner, Thiébaux, 2019)."""
