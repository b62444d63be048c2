"""Attempts to catch the system breaking its promise, on any machine, by anyone."""
