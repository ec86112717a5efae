"""Configuration: classes, TOML files, registries, plugins, results, and the reference of options."""

from regard.config.classes import (
    ConfigUnion,
    TaggedUnion,
    apply_override,
    config_classes,
    configclass,
    dump_toml,
    from_dict,
    is_configclass,
    option,
    parse_toml,
    read_config,
    read_toml,
    to_dict,
)

__all__ = [
    "ConfigUnion",
    "TaggedUnion",
    "apply_override",
    "config_classes",
    "configclass",
    "dump_toml",
    "from_dict",
    "is_configclass",
    "option",
    "parse_toml",
    "read_config",
    "read_toml",
    "to_dict",
]
