# What the scripts beside this share: the programs, and runs in turn. They stand in the directory
# that they measure in.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
if [ -z "${BIN:-}" ]; then
	BIN=$root/bin
	mkdir -p "$BIN"
	(cd "$root" && go build -o "$BIN/diskgnn" ./cmd/diskgnn && go build -o "$BIN/diskgnn-bench" ./bench)
fi
bin=$BIN/diskgnn

# made COMMAND…: what is there already stays.
made() { "$bin" "$@" --quiet >&2; }

# turns FLAG… -- COMMAND…
turns() { "$BIN/diskgnn-bench" turns -bin "$bin" -dir "$PWD" ${JSON:+-json} "$@"; }
