"""What gemma 3n has beside attention and MLP, and gemma 4 took over in part: streams and inputs for each layer."""

from __future__ import annotations

from service.domain.architecture import Module, ModuleKind, Place, Shard
from service.domain.configs import blocks
from service.domain.configs.base import Decoder
from service.domain.configs.fields import Fields

_WHOLE = Shard.REPLICATED


def streams(fields: Fields, shape: Decoder) -> list[Module]:
    """Residual streams that each layer predicts and corrects, and a narrow path beside attention."""
    streams, rank, hidden = fields.integer("altup_num_inputs", most=64), fields.integer("laurel_rank"), shape.hidden
    layers, mixer = shape.all_layers, ModuleKind.MIXER
    extra = streams - 1
    return [
        blocks.vector("stream_scale", hidden, layers),
        blocks.vector("stream_norm", hidden, layers),
        blocks.matrix("stream_correction", mixer, streams, streams, layers, _WHOLE),
        blocks.matrix("stream_prediction", mixer, streams * streams, streams, layers, _WHOLE),
        blocks.matrix("stream_router", mixer, streams, hidden, layers, _WHOLE),
        blocks.matrix("laurel.left", mixer, rank, hidden, layers, _WHOLE),
        blocks.matrix("laurel.right", mixer, hidden, rank, layers, _WHOLE),
        blocks.vector("laurel.norm", hidden, layers),
        Module("stream_projections", mixer, hidden, hidden, (), extra, extra, place=Place.FIRST),
        Module("stream_unembeddings", mixer, hidden, hidden, (), extra, extra, place=Place.LAST),
    ]


def layer_inputs(fields: Fields, shape: Decoder) -> list[Module]:
    """A second table whose rows hold an input for every layer, and what brings it into the layers."""
    width = fields.integer("hidden_size_per_layer_input", default=0, least=0)
    if not width:
        return []
    rows, hidden, joined = fields.integer("vocab_size_per_layer_input"), shape.hidden, width * shape.layers
    layers, mlp = shape.all_layers, ModuleKind.MLP
    return [
        Module("embed_tokens_per_layer", ModuleKind.EMBEDDING, rows, joined, shard=Shard.ROWS, place=Place.FIRST),
        Module("per_layer_model_projection", mlp, joined, hidden, place=Place.FIRST),
        blocks.edge_vector("per_layer_projection_norm", width, Place.FIRST),
        blocks.matrix("per_layer_input_gate", mlp, width, hidden, layers, _WHOLE),
        blocks.matrix("per_layer_projection", mlp, hidden, width, layers, _WHOLE),
        blocks.vector("post_per_layer_input_norm", hidden, layers),
    ]
