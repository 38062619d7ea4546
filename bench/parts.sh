# Functions of gpu.sh, storage.sh and stores.sh, which set bin, dir and out.
began=$SECONDS

# part NAME COMMAND…: runs a command, keeps its output in $out/NAME.json, and prints the time.
part() {
	local name=$1
	shift
	"$@" | tee "$out/$name.json"
	echo "== $name done, second $((SECONDS - began))"
}

# packs FLAG…: makes the pack of the next parts, in place of the previous one.
packs() {
	rm -rf "$dir/pack"
	"$bin" pack --dataset "$dir/graph" --samples "$dir/samples" --out "$dir/pack" "$@" --quiet --json
}

# begin and finish remove the data, unless KEEP is set.
begin() { [ -n "${KEEP:-}" ] || rm -rf "${dir:?}"/{graph,samples,pack}; }
finish() { begin; }
