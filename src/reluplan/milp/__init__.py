"""The plan as a mixed-integer program."""
