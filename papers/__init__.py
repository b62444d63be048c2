"""The papers' experiments as tables and figures, and the mechanisms they compare with; not in the wheel."""
