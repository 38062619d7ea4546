# What the scripts beside this share. They have set bin, dir and out.
began=$SECONDS

# part NAME COMMAND…: runs a command, keeps its figures, says when it was done.
part() {
	local name=$1
	shift
	"$@" | tee "$out/$name.json"
	echo "== $name done, second $((SECONDS - began))"
}

# packs FLAG…: the pack that the next parts load, in the place of the one before.
packs() {
	rm -rf "$dir/pack"
	"$bin" pack --dataset "$dir/graph" --samples "$dir/samples" --out "$dir/pack" "$@" --quiet --json
}

# begin and finish empty the directory of the data, unless KEEP is set.
begin() { [ -n "${KEEP:-}" ] || rm -rf "${dir:?}"/{graph,samples,pack}; }
finish() { begin; }
