"""The experiments of the DAWA paper."""
