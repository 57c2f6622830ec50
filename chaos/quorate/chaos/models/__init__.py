"""Small worlds around one part of the real code, each checked after every step.

The whole cluster in the simulator sees everything, and each thing rarely. A model holds one part of the real
code, plain stand-ins for the rest, and reaches in a thousand quick steps what a cluster meets once in a
million seconds. The mutations (``quorate.chaos.mutations``) are hunted in them where a cluster would take too
long, and the unit tests use what the models are made of.
"""
