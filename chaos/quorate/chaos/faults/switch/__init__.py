"""What carries between the nodes of a cluster in a drill: a process of its own, told what to do wrong.

It imports little, and starts at once.
"""
