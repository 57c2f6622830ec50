"""The real directory of a broker through every way to die, judged by the controller's rule."""
