"""Private tables that are paid for once and can be asked for ever."""
