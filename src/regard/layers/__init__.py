"""Layers of the models: recurrences, products of many steps, dropout; and the rows that search moves."""
