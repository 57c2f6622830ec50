"""The proof of the proof: every safety rule switched off in turn, and found out.

A check that cannot fail proves nothing. A *mutation* is one mistake that somebody could make, or has made in
another system: a check left out, two steps in the wrong order, evidence believed too easily. It is applied
to the real code, which then runs where it is *hunted*: in the simulator, seed after seed, until something
notices.

- ``quorate.chaos.sim.patch``: how a mutation gets at the code, and out again;
- ``mutation``: what one is; ``hunts``: the places where they are hunted;
- ``in_models``: those that can be made to a stand-in of the product alone, and why;
- ``hunting``: the one runner, for the command line and for the tests alike;
- ``of_*``: the mutations, by the part of the system that they are made to; ``registry``: all of them;
- ``recorded_hunts``: what came of each, in docs/evidence/mutations.jsonl; ``evidence``: the table of them in
  docs/evidence/mutations.md; ``missed``: what the whole cluster did not notice.

No code of the product reads a switch: a mutation replaces attributes from outside, in a process that is there
for nothing else. Two ways were rejected. Flags in the code (``if not MUTATED``) would put a path into the
product on which it loses data. Mutants made by a tool (a changed operator, a deleted line) are many and
mostly meaningless; what counts here is that each *rule* is missed when it is gone.
"""
