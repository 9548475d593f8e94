"""What the files of a checkpoint hold, from their headers alone: tensors by type, whatever a header may claim.

The libraries of both formats read whole files: `safetensors` refuses a header whose data does not follow it, `gguf`
maps every tensor into numpy before it answers, and neither bounds what a header's counts make it do. These readers take
a header alone, once from its beginning to its end, and refuse by field what cannot be. The tests hold them to the
libraries.
"""

from service.domain.files.gguf import read_gguf
from service.domain.files.index import read_index
from service.domain.files.safetensors import read_safetensors, read_safetensors_json
from service.domain.files.table import MOST_HEADER_BYTES, Tensor, TensorTable, gathered

__all__ = [
    "MOST_HEADER_BYTES",
    "Tensor",
    "TensorTable",
    "gathered",
    "read_gguf",
    "read_index",
    "read_safetensors",
    "read_safetensors_json",
]
