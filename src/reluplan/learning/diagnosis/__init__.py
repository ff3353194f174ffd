"""Why a fit is poor: what kind of trouble the data look like."""

from reluplan.learning.diagnosis.trouble import Trouble

__all__ = ["Trouble"]
