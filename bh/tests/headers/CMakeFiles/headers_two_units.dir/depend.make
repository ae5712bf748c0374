# Empty dependencies file for headers_two_units.
# This may be replaced when dependencies are built.
