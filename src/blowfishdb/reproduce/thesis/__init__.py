"""The experiments of the thesis on data-dependent Blowfish histograms."""
