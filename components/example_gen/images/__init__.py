"""Pictures as rows: from a folder per class, from arrays, or as the files that a table names.

Whatever they come from, they become the same columns (`picture.COLUMNS`): the encoded bytes, and what statistics and
the gate need to know about them.
"""
