"""Mechanisms that look at the data through certified stages before they measure."""
