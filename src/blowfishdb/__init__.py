"""BlowfishDB: policy-aware differentially private data exploration."""
