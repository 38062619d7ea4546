package commands

import (
	"fmt"
	"slices"
	"testing"

	"diskgnn/dataset/importer/importertest"
)

// pageCommand is a line of a page that TestPages does not run as it stands.
type pageCommand struct {
	page, line string // the page, and how the line begins
	why        string // why it is not run, and what runs it otherwise
	instead    string // what is run instead; empty: nothing
}

const (
	isMade     = "the program under test is there already"
	noGPU      = "needs a GPU; make test-gpu runs the engine's tests on one"
	noSlurm    = "needs Slurm; make test-slurm runs examples/slurm on a cluster"
	noCluster  = "needs a cluster; the tests of examples/kubernetes carry out the manifests"
	noLauncher = "needs the launcher; TestLaunched runs it where there is one"
	noOpenSSL  = "needs openssl"
	noRclone   = "needs a remote; testdata/script/rclone.txtar runs it where there is rclone"
	noDownload = "a download; a small file of the same layout stands in for it"
	noDocker   = "needs Docker; make test-container carries out the Dockerfile's steps"
	noBrowser  = "opens a window"
	minutes    = "takes minutes"
	compiles   = "compiles; its own module's test runs it"
	installs   = "needs a build; TestInstall runs make install, make test-container all of them"
	aPort      = "the port may be taken"
	terminal   = "a person presses Ctrl-C"
	noPeers    = "needs the peers' Pythons"
	bigGraph   = "gigabytes, and minutes of a big machine"
	noGo       = "compiles, and measures for minutes"
)

// pageCommands are all commands of pages that are not run as they stand.
var pageCommands = []pageCommand{
	{"README.md", "make demo", minutes, ""},
	{"README.md", "make build", isMade, ""},

	{"docs/watching.md", "diskgnn train --pack pack --out run --listen", aPort, "diskgnn train --pack pack --out run --listen 127.0.0.1:0"},
	{"docs/watching.md", "ssh ", "needs another machine", ""},
	{"docs/watching.md", "go tool pprof", aPort, ""},
	{"docs/watching.md", "curl ", aPort, ""},
	{"docs/watching.md", "printf 'diskgnn listen'", noOpenSSL + "; TestListenQuietly makes the same token", ""},

	{"docs/cluster.md", "cd /shared/work", noSlurm, ""},
	{"docs/cluster.md", "cp path/to/examples/slurm", noSlurm, ""},
	{"docs/cluster.md", "CONFIG=pipeline.yaml", noSlurm, ""},
	{"docs/cluster.md", "kubectl ", noCluster, ""},
	{"docs/cluster.md", "mpirun ", noLauncher, ""},
	{"docs/cluster.md", "torchrun ", noLauncher, ""},
	{"docs/cluster.md", "(umask 077; openssl", noOpenSSL, ""},
	{"docs/cluster.md", "export DISKGNN_SECRET", noLauncher, ""},
	{"docs/cluster.md", "rclone copy --transfers 16 pack", noRclone, ""},
	{"docs/cluster.md", "rclone copy --transfers 16 --multi", noRclone, ""},
	{"docs/cluster.md", "diskgnn verify /scratch/pack", noRclone, ""},

	{"docs/nvme.md", "cd examples/nvme-overlap", compiles, ""},
	{"docs/nvme.md", "go run .", compiles, ""},

	{"docs/howto/typed-tutorial.md", "curl ", noDownload, ""},
	{"docs/howto/typed-tutorial.md", "python3 tables.py", "needs NumPy; arrays of a smaller graph stand in for it", `cp "$FIXTURES"/*.npy .`},
	{"docs/howto/typed-tutorial.md", "python3 columns.py", "needs NumPy; arrays of a smaller graph stand in for it", "cp features.npy students.npy; cp labels.npy groups.npy; cp uses.npy has.npy; cp coauthor.npy friend.npy"},

	{"docs/howto/own-store.md", "cp -r path/to/diskgnn/examples", compiles, ""},
	{"docs/howto/own-store.md", "go mod edit", compiles, ""},
	{"docs/howto/own-store.md", "go test", compiles, ""},
	{"docs/howto/own-store.md", "go build", compiles, ""},
	{"docs/howto/own-store.md", "./diskgnn ", compiles, ""},

	{"docs/results.md", "bench/accuracy/peers.sh", noPeers, ""},
	{"docs/results.md", "go run ./bench accuracy", "needs graphs and a GPU, and measures for minutes", ": \\"},
	{"docs/results.md", "diskgnn generate --out graph --nodes 5000000", bigGraph, ":"},
	{"docs/results.md", "diskgnn presample --dataset graph --out samples --fanout 10,15,20", bigGraph, ":"},
	{"docs/results.md", "diskgnn pack --dataset graph --samples samples --out pack --bands", bigGraph, ":"},
	{"docs/results.md", "diskgnn presample --dataset graph --out samples --fanout 10,15 --eval-fanout 1,1", bigGraph, ":"},
	{"docs/results.md", "diskgnn pack --dataset graph --samples samples --out pack --cache", bigGraph, ":"},
	{"docs/results.md", "diskgnn-gpu ", noGPU, ""},
	{"docs/results.md", "python bench/typed/step.py", "needs PyTorch Geometric and a GPU", ""},
	{"docs/results.md", ".pyg/bin/python bench/typed", "needs PyTorch Geometric, and measures for minutes", ""},
	{"docs/results.md", "diskgnn import --typed --format typed", "reads downloads; docs/howto/typed-tutorial.md imports a smaller graph", ""},
	{"docs/results.md", "go run ./bench turns", noGo, ": \\"},
	{"docs/results.md", "NODES=2000000 DIM=64 MEMORY=128MiB BATCH=128", bigGraph, ": \\"},
	{"docs/results.md", "FANOUT=5,5 ROUNDS=1 ENGINE=auto", bigGraph, ": \\"},

	{"docs/tutorial.md", "make build", isMade, ""},
	{"docs/tutorial.md", "curl ", noDownload, `cp "$FIXTURES"/amazon_electronics_computers.npz .`},
	{"docs/tutorial.md", "diskgnn train --pack pack --out stopped", terminal, "interrupted stopped diskgnn train --pack pack --out stopped --epochs 20 --lr 0.01 --ram-cache 10% --hidden 128"},

	{"docs/howto/store-and-cache.md", "diskgnn bench io .", "measures for 75 seconds", "diskgnn bench io . --size 4MiB --seconds 0.02"},
	{"docs/howto/store-and-cache.md", "diskgnn bench stores", "takes minutes", "diskgnn bench stores --dataset graph --samples samples --out compared --stores packed,rows --rounds 1 --epochs 2 --hidden 8 --drive-seconds 0.02"},

	{"docs/howto/install.md", "make build", installs, ""},
	{"docs/howto/install.md", "sudo make install", installs, ""},
	{"docs/howto/install.md", "make install", installs, ""},
	{"docs/howto/install.md", "make uninstall", installs, ""},
	{"docs/howto/install.md", "go install", installs, ""},
	{"docs/howto/install.md", "docker ", noDocker, ""},

	{"docs/howto/resume.md", "diskgnn train --pack pack --out run --epochs 300", terminal, "interrupted run diskgnn train --pack pack --out run --epochs 300"},
	{"docs/howto/watch.md", "diskgnn train --pack pack --out listened", aPort, "diskgnn train --pack pack --out listened --listen 127.0.0.1:0"},
	{"docs/howto/watch.md", "tensorboard ", "needs TensorBoard, and stays; train/report's tests read the files by it where it is", ""},

	{"docs/howto/gpus.md", "diskgnn-gpu ", noGPU, ""},
	{"docs/howto/gpus.md", "torchrun ", noGPU, ""},
	{"docs/howto/gpu-build.md", "make build-gpu", "fetches 210 MB, and takes minutes", ""},
	{"docs/howto/gpu-build.md", "bin/diskgnn-gpu ", noGPU, ""},
	{"docs/howto/gpu-build.md", "diskgnn-gpu ", noGPU, ""},
	{"docs/cli/eval.md", "diskgnn-gpu ", noGPU, ""},
	{"docs/cli/predict.md", "diskgnn-gpu ", noGPU, ""},
	{"docs/howto/slurm.md", "cd /shared/work", noSlurm, ""},
	{"docs/howto/slurm.md", "cp path/to/examples/slurm", noSlurm, ""},
	{"docs/howto/slurm.md", "CONFIG=pipeline.yaml", noSlurm, ""},
	{"docs/python.md", "make python-wheel", "builds the program; TestPythonWheel installs a wheel", ""},
	{"docs/python.md", "diskgnn feed --plan", "the page makes no dataset", "diskgnn generate --out graph --nodes 500 && diskgnn feed --plan --dataset graph --split all --fanout all,all --batch-size 512"},
	{"docs/howto/install.md", "make python-wheel", "builds the program; TestPythonWheel installs a wheel", ""},
	{"docs/howto/compare.md", "python3 docs/python/load.py", "needs PyTorch Geometric; tests of train run it where there is one", ""},
	{"docs/howto/compare.md", "DISKGNN_DATA=data go run", noGo, ""},
	{"docs/howto/compare.md", "bench/accuracy/peers.sh", noGo, ""},

	{"examples/README.md", "xdg-open ", noBrowser, ""},
}

// pageSetup is what a page takes for granted.
type pageSetup struct {
	copies string // of pageWorld, by name
	// commands are run before the page's.
	commands string
}

var pageSetups = map[string]pageSetup{
	"README.md":                  {commands: `mkdir -p work/path/to; cp -r "$WORLD"/source work/path/to/source`},
	"docs/explanation/drives.md": {copies: "pack", commands: `: >drive0; : >drive1`},
	"docs/explanation/ranks.md":  {copies: "pack"},
	"docs/watching.md":           {copies: "pack"},
	"docs/howto/another-graph.md": {commands: `
		diskgnn import --out graph --edges "$FIXTURES"/edges.csv --features "$FIXTURES"/features.npy --labels "$FIXTURES"/labels.csv --split 60/20/20 --seed 1
		diskgnn train --dataset graph --fanout 3,3 --epochs 2 --out run
		cp "$FIXTURES"/edges.csv "$FIXTURES"/labels.csv "$FIXTURES"/features.npy .`},
	"docs/howto/compare.md": {copies: "graph"},
	"docs/howto/gpus.md":    {copies: "pack"},
	"docs/cli/doctor.md":    {copies: "pack graph"},
	"docs/cli/train.md":     {copies: "pack graph"},
	"docs/cli/import.md": {commands: `
		printf 'source,target\na,b\nb,c\n' >edges.csv
		printf 'id,topic,set,title,url,x0,x1\na,ai,train,A,u,0.1,2\nb,db,valid,B,v,0.7,1\nc,db,test,C,w,0.2,1\n' >nodes.csv`},
	"docs/howto/own-graph.md": {commands: `
		printf 'source,target,weight\nalice,bob,0.5\nbob,carol,1\n' >edges.csv
		printf 'id,label,split,x0,x1,x2\nalice,vet,train,0.1,2.5,1\nbob,cook,valid,0.7,1.5,0\ncarol,cook,test,0.2,1,1\n' >nodes.csv`},
	"docs/howto/resume.md":          {copies: "graph"},
	"docs/howto/slurm.md":           {copies: "graph"},
	"docs/howto/store-and-cache.md": {copies: "graph samples"},
	"docs/howto/watch.md":           {copies: "pack"},
	"examples/README.md": {commands: `
		mkdir examples path path/to
		for f in generated computers-sage; do
			sed -E 's/nodes: .*/nodes: 1500/; s/hidden: .*/hidden: 8/; s/  epochs: 40/  epochs: 2/' "$REPOSITORY"/examples/$f.yaml >examples/$f.yaml
		done
		cp "$FIXTURES"/amazon_electronics_computers.npz path/to/amazon-computers.npz
		cp "$FIXTURES"/amazon-computers_split.npz path/to`},
}

// writeFixtures writes what stands in for downloads and a user's files.
func writeFixtures(t *testing.T, dir string) {
	t.Helper()
	// A graph of gnn-benchmark's layout: two sparse matrices, and labels. Node i has the label
	// i mod 4, the words i mod 16 and 16, and edges to the next node and the one after the next of
	// its class.
	const nodes, words = 400, 17
	var adjacency, attributes struct {
		data            []float32
		indices, indptr []int32
	}
	labels := make([]int64, nodes)
	var edges, classes []byte
	features := make([]float32, nodes*words)
	adjacency.indptr, attributes.indptr = []int32{0}, []int32{0}
	for i := range nodes {
		labels[i] = int64(i % 4)
		classes = append(classes, byte('0'+i%4), '\n')
		for _, to := range []int{(i + 1) % nodes, (i + 4) % nodes} {
			adjacency.data, adjacency.indices = append(adjacency.data, 1), append(adjacency.indices, int32(to))
			edges = fmt.Appendf(edges, "%d,%d\n", i, to)
		}
		for _, word := range []int{i % 16, 16} {
			attributes.data, attributes.indices = append(attributes.data, 1), append(attributes.indices, int32(word))
			features[i*words+word] = 1
		}
		adjacency.indptr = append(adjacency.indptr, int32(len(adjacency.data)))
		attributes.indptr = append(attributes.indptr, int32(len(attributes.data)))
	}
	npz := importertest.Tree{"labels": importertest.Vector(labels)}
	npz["adj_data"], npz["adj_indices"], npz["adj_indptr"] = importertest.Vector(adjacency.data), importertest.Vector(adjacency.indices), importertest.Vector(adjacency.indptr)
	npz["attr_data"], npz["attr_indices"], npz["attr_indptr"] = importertest.Vector(attributes.data), importertest.Vector(attributes.indices), importertest.Vector(attributes.indptr)
	npz["adj_shape"], npz["attr_shape"] = importertest.Vector([]int64{nodes, nodes}), importertest.Vector([]int64{nodes, words})
	tree := importertest.Tree{
		"edges.csv": edges, "labels.csv": classes,
		"features.npy": importertest.NPY(fmt.Sprintf("(%d, %d)", nodes, words), features),
	}
	// The same nodes as authors, and the words as nodes without features: a typed graph.
	var author, word, next []int64
	for i := range int64(nodes) {
		author, word, next = append(author, i, i), append(word, i%16, 16), append(next, (i+1)%nodes, (i+4)%nodes)
	}
	both := fmt.Sprintf("(2, %d)", 2*nodes)
	tree["uses.npy"] = importertest.NPY(both, append(slices.Clone(author), word...))
	tree["coauthor.npy"] = importertest.NPY(both, append(slices.Clone(author), next...))
	tree["labels.npy"] = importertest.Vector(labels)
	for key, array := range npz {
		tree["amazon_electronics_computers.npz/"+key] = array
	}
	for set, name := range []string{"train", "valid", "test"} {
		var ids []int64
		for i := int64(set); i < nodes; i += 3 {
			ids = append(ids, i)
		}
		tree["amazon-computers_split.npz/"+name] = importertest.Vector(ids)
	}
	tree.Write(t, dir)
}
