"""The drills' load and checks on other systems: what the same checker says of them under the same fault."""
