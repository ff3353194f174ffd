"""True systems to collect data from and to run plans in: RDDL, gymnasium, Python functions."""
