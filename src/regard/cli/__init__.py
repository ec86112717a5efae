"""The commands of the command line interface. `regard.cli.main` registers them."""
