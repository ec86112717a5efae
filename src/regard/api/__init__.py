"""Python API of regard: `load` a model and translate with it, `evaluate` translations."""
