"""Problems from the text files of HD-MILP-Plan (Say et al., IJCAI 2017)."""
