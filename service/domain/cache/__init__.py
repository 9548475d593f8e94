"""The kinds of cache a layer can own, one module each, behind one small interface.

Import each from its own module: most processes meet few of them.
"""
