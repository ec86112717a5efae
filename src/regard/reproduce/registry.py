"""The tables that `regard reproduce` knows; a new one is a line here."""

from regard.reproduce import malaviya2018, shankar2019
from regard.reproduce.tables import Table

__all__ = ["TABLES"]

TABLES: dict[str, Table] = {table.name: table for table in (*malaviya2018.TABLES, *shankar2019.TABLES)}
