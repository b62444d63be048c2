"""REST v1: one file per noun, each a router; OpenAPI describes them."""
