"""What the mechanisms over several axes share: rows per axis, their choice, and marginal weights."""
