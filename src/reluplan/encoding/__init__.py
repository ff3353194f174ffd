"""Steps and plans as rows of a mixed-integer program, and plans from its solutions."""
