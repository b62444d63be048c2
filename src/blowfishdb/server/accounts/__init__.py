"""Who may do what: people with roles, their visits and tokens, and what they did."""
