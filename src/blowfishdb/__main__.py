"""The command line as `python -m blowfishdb`."""

from blowfishdb.cli import main

main()
