"""Kernels of a card on the CPU, and a stand-in for CuPy made of NumPy that launches them."""
