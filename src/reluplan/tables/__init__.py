"""Files of named columns of numbers: CSV, Parquet, NPZ, and what was registered."""
