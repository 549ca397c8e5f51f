"""What the pytest suites share: real servers, a fault proxy, a driver.

Standard library only. Everything listens on the loopback interface, lives in
a scratch directory, and ends with the test process, however that one ends.
"""
