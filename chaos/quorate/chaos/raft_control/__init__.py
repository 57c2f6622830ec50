"""The control: stock pysyncobj behind the simulator's checks, which must catch it.

A checker that passes a system known to be broken is itself broken. pysyncobj (0.3.17, extra ``chaos``) is
such a system, so it lives through the same stories as our own core, is judged by the same invariants, and has
to go red where ours stays green. What it does wrong, and why the metadata quorum does not stand on it, is in
docs/adr/0009.

- In simulation: ``world`` runs one seed of a scenario, with ``stock_voter`` or with ``own_voter``.
- Its files: ``damage`` flips bits and tears a dump.
- Real processes: ``kill_all`` kills all voters at once, ``syncs`` counts the calls that make anything
  durable, ``latency`` measures how fast it is without them.

``python -m quorate.chaos.raft_control`` shows all of it.
"""
