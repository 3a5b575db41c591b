"""What a training tells of itself: its pace, its memory, and what its script knows better."""
