"""The toolkits we measure ourselves beside, each run in a virtual environment of its own."""
