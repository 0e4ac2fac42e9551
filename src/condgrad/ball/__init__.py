"""Newton's method on the l1 ball and other sets with faces: one engine, of which this is the door.

`FaceNewton` is a method for the loop; `Warm` is what one run of it leaves for the next on a path of
radii; `follow` predicts where that begins, and `AtPrediction` proves it. `OPTIONS` are the
thresholds. Nothing else imports from inside. Compiled code, in `compiled`, is loaded at the first
solve.
"""

from condgrad.ball.engine import AtPrediction, FaceNewton, Warm
from condgrad.ball.follower import Follower, follow
from condgrad.ball.options import OPTIONS, Options

__all__ = ["OPTIONS", "AtPrediction", "FaceNewton", "Follower", "Options", "Warm", "follow"]
