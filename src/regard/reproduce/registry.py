"""The registry of the tables of `regard reproduce`."""

from regard.reproduce.indurthi2019 import INDURTHI2019_TABLES
from regard.reproduce.malaviya2018 import MALAVIYA2018_TABLES
from regard.reproduce.shankar2019 import SHANKAR2019_TABLES
from regard.reproduce.sutskever2014 import SUTSKEVER2014_TABLES
from regard.reproduce.tables import Table

__all__ = ["TABLES"]

TABLES: dict[str, Table] = {
    table.name: table
    for table in (*MALAVIYA2018_TABLES, *SHANKAR2019_TABLES, *INDURTHI2019_TABLES, *SUTSKEVER2014_TABLES)
}
