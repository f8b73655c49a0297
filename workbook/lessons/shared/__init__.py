"""What several lectures use: models, measurements, and ways to show what a server refuses."""
