# Empty dependencies file for random_llama.
# This may be replaced when dependencies are built.
