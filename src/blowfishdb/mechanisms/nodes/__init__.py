"""Grids of nodes on which records spread their weight, and the choice among them."""
