# Empty compiler generated dependencies file for headers_alone.
# This may be replaced when dependencies are built.
