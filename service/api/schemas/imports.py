"""`POST /models/import`: a published config, and what its files' headers say."""

import binascii
import re
from base64 import b64decode

from service.api import limits
from service.api.large_bodies import Text
from service.api.schemas.closed import Asked, ClosedSchema
from service.api.schemas.fields import AskedField, Document, MisreadError, Name, Properties
from service.domain.errors import Fault

LARGE = frozenset({"safetensors_index", "safetensors_header", "gguf_header"})
"""What is not read with the rest of the body, but by readers of its own."""
_hub_id = re.compile(r"[a-z0-9_][\w.-]*/[a-z0-9_][\w.-]*", re.ASCII | re.IGNORECASE).fullmatch


class Headers(AskedField):
    """One header as an object, or a list of those of a checkpoint in several files; their readers look inside."""

    # Two types are described already; a third does not go beside them.
    nullable = False

    def read(self, value: object) -> list[Text]:
        """The texts of them; refuses more than a checkpoint has files."""
        headers = value if type(value) is list else [value]
        texts = [header for header in headers if isinstance(header, Text) and header.is_object()]
        if len(texts) < len(headers) or len(texts) > limits.HEADERS:
            raise MisreadError(f"must be an object, or a list of 1 to {limits.HEADERS:,} objects")
        return texts

    def described(self) -> Properties:
        """An open object, or a list of such."""
        header = {"type": "object", "additionalProperties": True}
        return {
            "type": ["object", "array"],
            "additionalProperties": True,
            "items": header,
            "minItems": 1,
            "maxItems": limits.HEADERS,
        }


class Index(AskedField):
    """An object that its reader looks into."""

    def read(self, value: object) -> Text:
        """Refuses what is no object."""
        if not isinstance(value, Text) or not value.is_object():
            raise MisreadError("must be an object")
        return value

    def described(self) -> Properties:
        """An open object."""
        return {"type": "object", "additionalProperties": True}


class Bytes(AskedField):
    """Bytes in base64."""

    def read(self, value: object) -> bytes:
        """Refuses what is no base64 text."""
        text = value.data.tobytes().strip() if isinstance(value, Text) else b""
        if not (text.startswith(b'"') and text.endswith(b'"')):
            raise MisreadError("must be base64")
        try:
            return b64decode(memoryview(text)[1:-1], validate=True)
        except (binascii.Error, ValueError):
            raise MisreadError("must be base64") from None

    def described(self) -> Properties:
        """A string that says how it is encoded."""
        return {"type": "string", "contentEncoding": "base64"}


class ImportQuestion(ClosedSchema):
    """A model to take into the catalog."""

    hub_id = Name(metadata={"description": "Hugging Face id, owner/name; the entry's id is its last part."})
    config = Document(metadata={"description": "The published config.json."})
    name = Name(metadata={"description": "Name for people; the last part of the hub id without it."})
    family = Name(metadata={"description": "Family it belongs to; the config's model_type without it."})
    licence = Name(metadata={"description": "Licence as the hub tags it."})
    safetensors_index = Index(metadata={"description": "The model.safetensors.index.json of a checkpoint."})
    safetensors_header = Headers(
        metadata={"description": "The JSON header of its safetensors file, or a list of the headers of all its files."}
    )
    gguf_header = Bytes(metadata={"description": "A GGUF file from its beginning to its data, or further, in base64."})

    def contradictions(self, asked: Asked) -> list[Fault]:
        """There must be a config and a hub id with an owner, and what is read of files must come from one place."""
        faults = [Fault(f"/{name}", f"Give a {name}.") for name in ("config", "hub_id") if name not in asked]
        if not _hub_id(asked.get("hub_id", "a/b")):
            faults.append(Fault("/hub_id", "hub_id must be owner/name, of letters, digits, dots, - and _."))
        given = sorted(LARGE & set(asked))
        several = f"Give one of {', '.join(sorted(LARGE))}, not several."
        return faults + [Fault(f"/{name}", several) for name in given[1:]]


IMPORT_BODY = ImportQuestion()
"""As it is read from a body."""
