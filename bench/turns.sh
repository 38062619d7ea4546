# Functions of the scripts beside this one: the programs, and runs in turn. The working directory is the
# directory of the measurement.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
if [ -z "${BIN:-}" ]; then
	BIN=$root/bin
	mkdir -p "$BIN"
	(cd "$root" && go build -o "$BIN/diskgnn" ./cmd/diskgnn && go build -o "$BIN/diskgnn-bench" ./bench)
fi
bin=$BIN/diskgnn

# made COMMAND…: makes a directory, unless it is finished.
made() { "$bin" "$@" --quiet >&2; }

# turns FLAG… -- COMMAND…: runs the subcommand turns of the harness.
turns() { "$BIN/diskgnn-bench" turns -bin "$bin" -dir "$PWD" ${JSON:+-json} "$@"; }
