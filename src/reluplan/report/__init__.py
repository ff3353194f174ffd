"""Results for people: short tables on the terminal."""

from reluplan.report.terminal import check_record, print_check, print_result

__all__ = ["check_record", "print_check", "print_result"]
