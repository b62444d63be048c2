"""Private selection: which partition of the cells to measure."""
