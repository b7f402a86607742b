"""Tools that come with the library, to be added to a toolbox."""
