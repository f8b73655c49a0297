"""What every part of the course uses: paths, errors, the terminal."""
