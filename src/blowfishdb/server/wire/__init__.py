"""The PostgreSQL protocol, so that psql, drivers and dashboards ask datasets as if they were tables."""
