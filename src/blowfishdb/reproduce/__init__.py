"""The papers' experiments as tables and figures, each with a verdict."""
