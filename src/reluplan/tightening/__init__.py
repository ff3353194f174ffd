"""Bound tightening: smaller boxes from boxes, by LP, by MILP and by reward cutoff."""
