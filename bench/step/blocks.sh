# A function of the scripts beside this one, which set bin, bench and dir.

# blocks: writes a training batch of 1,024 seed nodes with fanout 10,15,20 to $dir/blocks, unless it
# exists. The graph is generated, with power-law degrees, NODES nodes (2 million) and 15 neighbours on
# average.
blocks() {
	[ -e "$dir/blocks/meta.json" ] && return
	mkdir -p "$dir"
	rm -rf "$dir"/{graph,samples,blocks}
	"$bin" generate --out "$dir/graph" --nodes "${NODES:-2000000}" --avg-degree 15 --dim 128 --classes 172 --train-ratio 0.002 --quiet >&2
	"$bin" presample --dataset "$dir/graph" --out "$dir/samples" --eval-fanout 1,1,1 --quiet >&2
	"$bench" step "$dir/blocks" -make "$dir/samples" -dataset "$dir/graph"
	rm -rf "$dir"/{graph,samples}
}
