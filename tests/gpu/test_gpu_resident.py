"""Images that lie on a card: the tests of the stand-in, on the real thing."""

import test_resident

room = test_resident.room
globals().update({name: test for name, test in vars(test_resident).items() if name.startswith("test_")})
