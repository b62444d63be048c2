"""What curators' pages work out, without a page: forms read into values, curves, examples, uploads."""
