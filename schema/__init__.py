"""What a run leaves behind, as types: written by the controller, read by the analysis."""
