"""What anybody would try first: plain population methods and gradient ascent in numpy, to compare the planner with."""
