"""Networks and problems from other formats."""
