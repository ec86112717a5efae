"""Export of trained models to inference engines other than PyTorch."""
