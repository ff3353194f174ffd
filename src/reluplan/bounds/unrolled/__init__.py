"""Back-substitution through many steps at once: the network unrolled over the horizon, with the functions on it."""
