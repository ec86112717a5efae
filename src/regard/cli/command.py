"""The command classes of the command line interface, which name what replaced an old command or flag."""

import itertools
from typing import Any

from typer.core import TyperCommand, TyperGroup

from regard.renames import new_flag

__all__ = ["Command", "CommandGroup"]


class Command(TyperCommand):
    """A command that names the new flag if an old one is given."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments of the command; an old flag is a usage error."""
        known = {name for parameter in self.params for name in (*parameter.opts, *parameter.secondary_opts)}
        for argument in args:
            flag = argument.partition("=")[0]
            if flag == "--":
                break
            new = new_flag(self.name or "", flag) if flag.startswith("--") and flag not in known else None
            if new is not None:
                ctx.fail(f"No such option: {flag}. It is now called {new}.")
        return super().parse_args(ctx, args)


class CommandGroup(TyperGroup):
    """The group of all commands: it imports plugins, and names the new command if the old one is given."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Move `--plugin` to the front, so that it may stand anywhere before `--`."""
        end = args.index("--") if "--" in args else len(args)
        plugins, others, given = [], [], iter(args[:end])
        for argument in given:
            if argument == "--plugin":
                plugins += [argument, *itertools.islice(given, 1)]
            elif argument.startswith("--plugin="):
                plugins.append(argument)
            else:
                others.append(argument)
        return super().parse_args(ctx, [*plugins, *others, *args[end:]])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the arguments name; the old name of a command is a usage error."""
        if args and args[0] == "analyse":
            ctx.fail("No such command: analyse. It is now regard analyze errors, attention or length.")
        return super().resolve_command(ctx, args)
