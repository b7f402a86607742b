"""Tools of the library that you can add to a toolbox."""
