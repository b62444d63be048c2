"""How answers look: tables, plots, pages, notes and stored text. Everything here reads released answers only."""
