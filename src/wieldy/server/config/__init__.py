"""The file of a gateway: read, checked, and described for editors."""
