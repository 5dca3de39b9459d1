"""What a restart needs: the checkpoint, and the files of state."""
