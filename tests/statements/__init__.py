"""Every sentence with a number, on every kind of policy and question, against the table itself."""
