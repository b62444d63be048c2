"""Faults that are planted on purpose, one at a time, to see whether the tests and the audit find them."""
