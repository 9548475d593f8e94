"""One schema per payload. None reads the database; each is built once."""
