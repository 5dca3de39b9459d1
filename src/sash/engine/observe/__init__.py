"""What a run tells of itself: reports, metrics, limits."""
