"""REST and web pages over sessions and the curator's side, and nothing else."""
