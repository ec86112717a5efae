"""Scripts that run other toolkits for comparison, each in its own virtual environment."""
