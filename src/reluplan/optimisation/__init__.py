"""Linear and mixed-integer programs: models, solvers, bounds that hold whatever a solver did, worker processes."""
