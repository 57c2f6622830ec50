"""The metadata quorum in simulation: the real core, on modelled disks, drivers, network and clocks.

One seed decides everything. ``Simulation`` is one run, ``runs`` has many of them, and what must hold at every
step is in the modules that end in ``invariants``.
"""
