"""The documentation site: pages generated from the code, pictures, and the hooks by which mkdocs finds them."""
