"""Published mechanisms to compare with, on our exact noise: counts, epsilon and ranges in, answers out.

All protect one record more or less (presence `only`). Where the published code is not private at its stated epsilon,
the function here has the noise that its proof needs, and says so.
"""
