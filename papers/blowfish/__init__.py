"""The experiments of the Blowfish paper: clusters, ranges, and sensitivities under public constraints."""
