"""What the mechanisms for one ordered axis share: shapes, shares, least squares and exact variances."""
