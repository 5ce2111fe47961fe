"""What hosts that are made start from, whichever provider makes them: a system, a drive, a key."""
