"""The registry of the tables of `regard reproduce`."""

from regard.reproduce import indurthi2019, malaviya2018, shankar2019, sutskever2014
from regard.reproduce.tables import Table

__all__ = ["TABLES"]

TABLES: dict[str, Table] = {
    table.name: table
    for paper in (malaviya2018, shankar2019, indurthi2019, sutskever2014)
    for table in paper.TABLES
}
