"""Gives Patroni a wall clock that jumps: the seconds in the file CLUSTER_CLOCK are added. Python loads this file at its start."""
import os
import time

clock = os.environ["CLUSTER_CLOCK"]
actual = time.time


def jumped():
    with open(clock) as file:
        return actual() + float(file.read())


time.time = jumped
