"""A drill's ledger against the log, as joins of tables.

It shares no code with the checks of ``quorate.chaos``: not the reading of the ledger, not the comparison.
Where both look at the same thing they have to agree, and so each is a check on the other.
"""
