"""Planning methods, each in a file of its own: `run` does the work, `options` says how."""
