"""Solvers and other tasks in processes of their own."""
