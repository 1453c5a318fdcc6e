"""The search for a controller in simulation: trials, choice, files, picture."""
