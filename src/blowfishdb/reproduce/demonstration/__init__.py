"""The claims of the BlowfishDB demonstration: what a policy saves, what projecting it saves, how far a budget goes."""
