"""Boxes of a grid of cells: nested regions, their noisy counts, and least squares over them."""
