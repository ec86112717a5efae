"""The public import path of the attention functions of the extension `hf`.

Importing this module registers the transformations with transformers:

    import regard.hf
    model = AutoModel.from_pretrained(directory, attn_implementation="sparsemax")
"""

import sys

from regard.config.extensions import require_hook

# The extension is found by its hook, so that its folder can be deleted.
sys.modules[__name__] = require_hook("attention_functions", "hf")
