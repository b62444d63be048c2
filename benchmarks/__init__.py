"""Measurements that anybody can repeat: `python -m benchmarks NAME [--json] [--data DIR]`."""

import os

# As in the `blowfish` command, before anything loads numpy: matrices are small, and figures are those of one core.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
