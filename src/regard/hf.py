"""The public import path of the attention functions of the extension `hf`.

Importing this module registers the transformations with transformers:

    import regard.hf
    model = AutoModel.from_pretrained(directory, attn_implementation="sparsemax")
"""

import sys
from typing import TYPE_CHECKING

from regard.config.extensions import require_hook

if TYPE_CHECKING:
    from regard.extensions.hf.attention_bounds import attention_bounds as attention_bounds
    from regard.extensions.hf.attention_bounds import attention_budget as attention_budget
    from regard.extensions.hf.attention_functions import ATTENTION_NAMES as ATTENTION_NAMES
    from regard.extensions.hf.attention_functions import (
        register_attention_function as register_attention_function,
    )

# The extension is found by its hook, so that its folder can be deleted.
sys.modules[__name__] = require_hook("attention_functions", "hf")
