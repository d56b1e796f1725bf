"""The command line."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from scaling_study import StudyError, plots, pool, replay, runs, slurm, table

EPILOG = """\
examples:
  launch/scaling-study --ranks 1,2,4,8 --out study -- model.json.gz --devices 64 --cluster h100
  launch/scaling-study --ranks 1,2,4 --weak devices=8/16/32 --out weak -- model.json.gz --cluster h100
  launch/scaling-study replay study/runs/ranks-1-repeat-1/log
docs/scaling.md has more.
"""


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f'"{text}" is not a number from 1 on')
    return int(text)


def rank_counts(text: str) -> list[int]:
    counts = [positive(word) for word in text.split(",")]
    if counts != sorted(set(counts)):
        raise argparse.ArgumentTypeError(f'"{text}" does not grow; expected numbers of ranks such as 1,2,4')
    return counts


def seconds(text: str) -> float:
    try:
        if 0 <= (value := float(text)) < 1e9:
            return value
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f'"{text}" is not a number from 0 on')


def weak_option(text: str) -> tuple[str, list[str]]:
    name, equals, values = text.partition("=")
    if not name or name.startswith("-") or not equals or not all(values.split("/")):
        raise argparse.ArgumentTypeError(
            f'"{text}": expected an option with a value for every --ranks: devices=8/16/32'
        )
    return name, values.split("/")


def study_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scaling-study",
        usage="scaling-study --ranks 1,2,4 --out DIR [options] -- MODEL [options of autopar-search]\n"
        "       scaling-study replay LOGDIR [options]",
        description="Runs one search on several numbers of ranks: DIR/runs.csv and plots. "
        "Called again, it goes on with what is missing or failed.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--ranks", type=rank_counts, required=True, metavar="N,N,…")
    parser.add_argument("--repeats", type=positive, default=3, metavar="N", help="of each; default: 3")
    parser.add_argument("--threads", type=positive, default=1, metavar="N", help="of each rank; default: 1")
    parser.add_argument(
        "--weak",
        type=weak_option,
        metavar="OPTION=V/V/…",
        help="weak scaling: this option of autopar-search gets the first value on the first number of ranks, …",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the study")
    parser.add_argument("--program", help="default: build/release/autopar-search, or the one in PATH")
    parser.add_argument("--slurm", action="store_true", help="submit what is to be run by launch/submit, and leave")
    parser.add_argument(
        "--submit",
        action="append",
        default=[],
        metavar="OPTION",
        help="with --slurm: an option for launch/submit, such as --submit=--time=2:00:00; may be repeated",
    )
    return parser


def replay_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scaling-study replay",
        description="Projects one recorded run to other numbers of ranks, by a simulation of the task pool: "
        "projection.csv and plots.",
        epilog="The defaults' sources are in docs/scaling.md.",
        allow_abbrev=False,
    )
    machine = pool.Machine()
    parser.add_argument("log_dir", type=Path, metavar="LOGDIR", help="that autopar-search --log-dir wrote")
    parser.add_argument(
        "--ranks", type=rank_counts, default=[2**k for k in range(11)], metavar="N,N,…", help="default: 1,2,4,…,1024"
    )
    for option, default, text in (
        ("latency-us", 1e6 * machine.latency_s, "of a message between two ranks"),
        ("bandwidth-GBps", 1e-9 * machine.bandwidth, "between two ranks"),
        ("start-up-s", machine.start_up_s, "that the launcher takes for one rank"),
        ("start-up-ms-per-rank", 1e3 * machine.start_up_s_per_rank, "for each rank more on a node"),
    ):
        parser.add_argument(
            f"--{option}", type=seconds, default=default, metavar="X", help=f"{text}; default: {default:g}"
        )
    parser.add_argument(
        "--ranks-per-node", type=positive, default=machine.ranks_per_node, metavar="N", help="nodes start at once"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="default: LOGDIR")
    return parser


def study(argv: list[str]) -> int:
    split = argv.index("--") if "--" in argv else len(argv)
    options = study_parser().parse_args(argv[:split])
    plan = runs.Study(
        out=options.out,
        arguments=argv[split + 1 :],
        ranks=options.ranks,
        repeats=options.repeats,
        threads=options.threads,
        weak=options.weak,
        program=runs.find_program(options.program),
        is_slurm=options.slurm,
    )
    plots.check_matplotlib()
    plan.open()
    to_do = [run for run in plan.runs() if not run.is_finished()]
    if options.slurm:
        slurm.submit(plan, slurm.collect(to_do), options.submit)
    else:
        for run in to_do:
            run.start(plan)
    rows = table.write(plan)
    good = [row for row in rows if row["status"] == "finished"]
    if good:
        plots.plot_study(good, plan.title(), plan.out)
    print(f"{len(good)} of {len(plan.runs())} runs are finished: {plan.out / 'runs.csv'}")
    table.check_plans(good)
    return 1 if any(row["status"] == "failed" for row in rows) else 0


def project(argv: list[str]) -> int:
    options = replay_parser().parse_args(argv)
    plots.check_matplotlib()
    if options.bandwidth_GBps == 0:
        raise StudyError("--bandwidth-GBps 0: a message would never arrive; give a number above 0")
    machine = pool.Machine(
        latency_s=1e-6 * options.latency_us,
        bandwidth=1e9 * options.bandwidth_GBps,
        start_up_s=options.start_up_s,
        start_up_s_per_rank=1e-3 * options.start_up_ms_per_rank,
        ranks_per_node=options.ranks_per_node,
    )
    recorded = replay.read_record(options.log_dir)
    rows = [replay.project(recorded, ranks, machine) for ranks in options.ranks]
    out = options.out or options.log_dir
    out.mkdir(parents=True, exist_ok=True)
    table.write_csv(out / "projection.csv", rows)
    plots.plot_projection(rows, f"{recorded.name}, a run on {recorded.ranks_text}", out)
    print(replay.summary(recorded, rows))
    return 0


def main() -> int:
    try:
        return project(sys.argv[2:]) if sys.argv[1:2] == ["replay"] else study(sys.argv[1:])
    except StudyError as error:
        print(f"scaling-study: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nscaling-study: stopped; the same command goes on with what is missing", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
