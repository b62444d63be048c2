"""One file a contestant of `python -m benchmarks peers`; each runs in a process, often with a Python, of its own."""
