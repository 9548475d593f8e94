"""Reads a catalog file: YAML as YAML 1.2's core schema reads it, so that a file means what it looks like.

PyYAML follows YAML 1.1, where `3.35e12` is a text, `no` is false, a date is an object that JSON lacks, and of two equal
keys the last wins silently.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import yaml
from yaml.constructor import ConstructorError

_PLAIN_SCALARS: Final = (
    ("tag:yaml.org,2002:null", re.compile(r"~|null|Null|NULL|"), ("~", "n", "N", "")),
    ("tag:yaml.org,2002:bool", re.compile(r"true|True|TRUE|false|False|FALSE"), tuple("tTfF")),
    ("tag:yaml.org,2002:int", re.compile(r"[-+]?(?:0|[1-9][0-9_]*)"), tuple("-+0123456789")),
    (
        "tag:yaml.org,2002:float",
        re.compile(r"[-+]?[0-9][0-9_]*(?:\.[0-9]*(?:[eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+)"),
        tuple("-+0123456789"),
    ),
)
_HOLDS_ITSELF: Final = "found unconstructable recursive node"
"""What PyYAML says of it."""


class CatalogYamlError(ValueError):
    """A file that is not one YAML mapping with distinct keys; the message names the line."""


class _Loader(yaml.CSafeLoader):
    """The safe loader in C with the resolver and the check that the module's first lines promise."""

    def __init__(self, stream: bytes) -> None:
        super().__init__(stream)
        # Inner nodes are built before outer ones, so that one which holds itself is found and refused.
        self.deep_construct = True

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002  # as the base
        """Refuse a key that is there twice, or that JSON cannot have."""
        seen: set[str] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise ConstructorError(None, None, "a key is no text", key_node.start_mark)
            if key in seen:
                raise ConstructorError(None, None, f"the key {key!r} is there twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in _PLAIN_SCALARS:
    _Loader.add_implicit_resolver(_tag, re.compile(f"(?:{_pattern.pattern})$"), list(_first))
for _tag in ("binary", "timestamp", "set", "omap", "pairs"):
    # Refused as unknown tags are: JSON has none of these.
    _Loader.add_constructor(f"tag:yaml.org,2002:{_tag}", _Loader.construct_undefined)  # type: ignore[type-var]  # as its stubs lack


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a file; raises CatalogYamlError."""
    try:
        document = yaml.load(path.read_bytes(), _Loader)  # noqa: S506  # a safe loader
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        problem = "a value holds itself" if error.problem == _HOLDS_ITSELF else error.problem
        raise CatalogYamlError(f"line {line}: {problem}") from error
    except RecursionError as error:
        raise CatalogYamlError("is nested too deeply") from error
    except LookupError as error:
        raise CatalogYamlError("a tag does not fit its value") from error
    except (yaml.YAMLError, ValueError, TypeError) as error:
        raise CatalogYamlError(str(error).partition("\n")[0]) from error
    if not isinstance(document, dict):
        raise CatalogYamlError("holds no mapping")
    return document
