"""The project's checks of its own code, on random cases and by drills: part of `blowfish audit` from a clone."""
