"""What kvquote knows about memory: pure Python, no web, no database, no input or output."""
