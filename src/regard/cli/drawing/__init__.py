"""The makers of `regard figures`: one function a figure, from what a user gave to pictures and numbers."""
