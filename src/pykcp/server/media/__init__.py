"""Bodies and answers in the media types that clients use."""
