from harness.fixtures import *  # noqa: F401,F403
