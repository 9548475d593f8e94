"""The HTTP side: one module per resource, one schema module per payload."""
