"""Everything that reads or writes the database or the catalog's files; returns domain values or plain facts."""
