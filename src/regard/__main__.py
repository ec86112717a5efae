"""The entry point of `python -m regard`, which runs the command line."""

from regard.cli.main import main

main()
