"""Two models over the same texts: their attention, their predictions and every number of both, side by side."""
