"""The results of Sutskever et al. (2014) as listed by Martins (2020): reversed sources and ensembles."""

from regard.reproduce.tables import Row, Table, TableMetric

__all__ = ["SUTSKEVER2014_TABLES"]

_REVERSED = "reversed"


def _row(label: str, recipe: str, printed: float, ensemble: int = 1) -> Row:
    model = _REVERSED if ensemble > 1 else ""
    return Row(label, recipe, model, ensemble_size=ensemble, published={"en-fr": {"bleu": printed}})


SUTSKEVER2014_TABLE = Table(
    "sutskever2014",
    "Sutskever et al. (2014): without attention, reversed sources and ensembles",
    "sutskever2014",
    (TableMetric("bleu", "BLEU"),),
    (
        _row("single forward LSTM, beam 12", "forward", 26.17),
        _row("single reversed LSTM, beam 12", _REVERSED, 30.59),
        _row("ensemble of 5 reversed LSTMs, beam 1", "ensemble5-beam1", 33.00, 5),
        _row("ensemble of 2 reversed LSTMs, beam 12", "ensemble2-beam12", 33.27, 2),
        _row("ensemble of 5 reversed LSTMs, beam 2", "ensemble5-beam2", 34.50, 5),
        _row("ensemble of 5 reversed LSTMs, beam 12", "ensemble5-beam12", 34.81, 5),
    ),
)

SUTSKEVER2014_TABLES = (SUTSKEVER2014_TABLE,)
