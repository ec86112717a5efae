"""regard from Python: `load` a model and translate with it, `evaluate` what came out."""
