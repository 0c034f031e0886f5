"""From files and data sets to packs of token ids."""
