"""What commands that run trained models share: loading them, and search settings from options."""

from regard.api.loading import load_models, search_settings

__all__ = ["load_models", "search_settings"]
