"""What public facts do to the neighbours of a table: who is bound by them, and which records change together."""
