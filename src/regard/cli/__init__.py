"""The commands; see `regard.cli.main`."""
