"""Composes controller and broker into a process."""
