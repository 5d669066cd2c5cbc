"""Every operation on a card against the reference on the CPU: the tests of the stand-in, on the real thing."""

import test_ops_cuda

random = test_ops_cuda.random
globals().update({name: test for name, test in vars(test_ops_cuda).items() if name.startswith("test_")})
