from regard.extensions.hf.attention_functions import ATTENTION_NAMES as ATTENTION_NAMES
from regard.extensions.hf.attention_functions import attention_bounds as attention_bounds
from regard.extensions.hf.attention_functions import attention_budget as attention_budget
from regard.extensions.hf.attention_functions import (
    register_attention_function as register_attention_function,
)
