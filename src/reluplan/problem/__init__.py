"""What is given: variables, dynamics, reward, constraints; files of them; what a plan of one is worth."""
