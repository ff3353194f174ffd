"""From a problem to a plan with a proven bound: stages, schedules, results."""
