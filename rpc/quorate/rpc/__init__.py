"""The Transport seam's implementations, and errors on the wire."""
