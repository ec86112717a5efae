"""What computes: matrix products on the fastest exact path, and the compiled row kernels of the maps."""
