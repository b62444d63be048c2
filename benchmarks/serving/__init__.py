"""Parts of the benchmarks that talk to a running server."""
