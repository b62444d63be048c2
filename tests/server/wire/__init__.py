"""The PostgreSQL port."""
