"""The training engine: explicit forward and backward for every layer, on NumPy arrays or CuPy arrays."""
