"""What engines share that give each rank a budget for its cache: parts of a rank, its pool, and the answer's terms.

An engine says what its ranks hold (`Rank`, with a `Pool` that divides the cache's bytes) and how a setting with one
field changed would come out; everything else of an answer follows.
"""
