"""Consumer groups, from the consumer's side.

From the outside in: `GroupSession` is a consumer's part in its group, and tells the application in its polls
what has changed (`steps`). `Member` knows what is held, `Heartbeats` keeps it in the group, `Beginnings` and
`origin` find out where to begin. `CommitPolicy` says what is committed and when, `CommitQueue` sends it.
`PollPace` watches the application; `AssignedByHand` is for those that assign partitions themselves.
"""
