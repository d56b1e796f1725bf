"""Checks the picture of dependencies in README.md against the includes of the sources.

check_includes.py ROOT          exits 1 and names every include that goes against the direction
check_includes.py --self-test   shows that it can fail
"""

import re
import sys
from pathlib import Path

# Folder -> folders of ours that it may include.
ALLOWED = {
    "costs": {"costs"},
    "engine": {"engine"},
    "partition": {"partition", "costs", "engine"},
    "io": {"io", "costs", "partition", "engine"},
    "launch": {"launch", "io", "costs", "partition", "engine"},
}
# The one file that speaks MPI; everything else sees engine/comm.h.
MPI_FILE = "engine/comm.cpp"
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
MPI = re.compile(r"^(mpi\.h|boost/mpi(\.hpp|/.*))$")


def faults_of(path: str, text: str) -> list[str]:
    """The faults of one source file; `path` is relative to the root and starts with one of the folders."""
    folder = path.split("/")[0]
    faults = []
    for number, line in enumerate(text.splitlines(), start=1):
        match = INCLUDE.match(line)
        if not match:
            continue
        quote, header = match.groups()
        target = header.split("/")[0]
        reason = None
        if header.startswith("."):
            reason = "relative include; name the folder"
        elif target in ALLOWED and target not in ALLOWED[folder]:
            reason = f"{folder}/ must not depend on {target}/"
        elif quote == '"' and target not in ALLOWED:
            reason = "not a header of ours; use <> for others"
        elif MPI.match(header) and path != MPI_FILE:
            reason = f"only {MPI_FILE} may include MPI"
        elif header.startswith("cereal/") and path.endswith(".h"):
            reason = "cereal stays out of headers"
        if reason:
            faults.append(f"{path}:{number}: {header}: {reason}")
    return faults


def self_test() -> None:
    bad = [
        ("engine/a.cpp", '#include "costs/graph.h"'),
        ("costs/a.h", '#  include "engine/solve.h"'),
        ("costs/rules/a.h", '#include "partition/plan.h"'),
        ("partition/a.cpp", "#include <io/json.h>"),
        ("io/a.cpp", '#include "launch/cli.h"'),
        ("io/a.cpp", '#include "../launch/cli.h"'),
        ("io/a.cpp", '#include "json.h"'),
        ("engine/comm.h", "#include <mpi.h>"),
        ("launch/main.cpp", "#include <boost/mpi.hpp>"),
        ("engine/worker.cpp", "#include <boost/mpi/communicator.hpp>"),
        ("engine/messages.h", "#include <cereal/types/vector.hpp>"),
    ]
    good = [
        ("engine/comm.cpp", "#include <boost/mpi/communicator.hpp>"),
        ("engine/messages.cpp", "#include <cereal/types/vector.hpp>"),
        ("partition/a.cpp", '#include "engine/solve.h"'),
        ("launch/a.cpp", '#include "io/json.h"'),
        ("costs/a.cpp", '// #include "engine/solve.h"'),
    ]
    for path, line in bad:
        assert faults_of(path, f"\n{line}\n"), f"not noticed: {path}: {line}"
    for path, line in good:
        assert not faults_of(path, line), f"wrongly refused: {path}: {line}"
    print(f"{len(bad)} bad lines refused, {len(good)} good ones accepted")


def main(arguments: list[str]) -> int:
    if arguments == ["--self-test"]:
        self_test()
        return 0
    root = Path(arguments[0])
    files = sorted(f for folder in ALLOWED for f in (root / folder).rglob("*") if f.suffix in {".h", ".cpp"})
    assert files, f"no sources below {root}"
    faults = [fault for f in files for fault in faults_of(f.relative_to(root).as_posix(), f.read_text())]
    print("\n".join(faults) if faults else f"{len(files)} files follow the direction of dependencies")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
