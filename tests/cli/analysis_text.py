"""The text of the tests of analyses."""

SOURCE = ["a b c", "d e", "", "f g a b e", "c c c c", "b d f a"]
REFERENCE = [line.upper() for line in SOURCE]
GOLD = ["0-0 1-1 2p2", "0-1 1-0", "", "0-0 1-1 2-2 3-3", "0p0", "3-0 2-1 1-2 0-3"]
