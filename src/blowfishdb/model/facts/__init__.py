"""Facts that are public already, as values: what they count, how they are written, whether they can all be true."""
