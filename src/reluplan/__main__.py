"""`python -m reluplan`."""

from reluplan.cli import main

main()
