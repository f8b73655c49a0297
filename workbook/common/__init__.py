"""What every part of the course uses: paths, the one shape of an error, the terminal."""
