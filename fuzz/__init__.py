"""A differential fuzzer: random problems through the planner, judged by code that shares nothing with it.

`python -m fuzz --minutes 10` runs it; docs/reliability.md tells what it looks for and what it found.
"""
