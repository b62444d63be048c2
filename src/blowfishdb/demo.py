"""The web pages of `blowfish demo`, also as `python -m blowfishdb.demo` and `make demo`."""

from __future__ import annotations

import sys

from blowfishdb.cli import main

if __name__ == "__main__":
    sys.argv.insert(1, "demo")
    main()
