"""`python -m eyelet`: the command."""

import os
import sys

from ._plan import command

path = str(command())
os.execv(path, [path, *sys.argv[1:]])
