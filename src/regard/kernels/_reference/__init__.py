"""The operations in plain PyTorch: they define the results of the compiled kernels."""
