"""Newton's method on the l1 ball and other sets with faces: one engine, of which this is the door."""
