"""The experiments of the paper on multidimensional partitioning: cells, kd-trees, and what is learnt from them."""
