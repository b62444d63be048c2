"""The command line as `python -m blowfishdb.cli`."""

from blowfishdb.cli import main

main()
