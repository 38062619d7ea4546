# What the scripts beside this share: the blocks. They have set bin, bench and dir.

# blocks: a training batch of 1,024 seed nodes at fanout 10,15,20 of a generated power-law
# graph, NODES (2 million) and 15 neighbours on average, in $dir/blocks, if it is not there.
blocks() {
	[ -e "$dir/blocks/meta.json" ] && return
	mkdir -p "$dir"
	rm -rf "$dir"/{graph,samples,blocks}
	"$bin" generate --out "$dir/graph" --nodes "${NODES:-2000000}" --avg-degree 15 --dim 128 --classes 172 --train-ratio 0.002 --quiet >&2
	"$bin" presample --dataset "$dir/graph" --out "$dir/samples" --eval-fanout 1,1,1 --quiet >&2
	"$bench" step "$dir/blocks" -make "$dir/samples" -dataset "$dir/graph"
	rm -rf "$dir"/{graph,samples}
}
