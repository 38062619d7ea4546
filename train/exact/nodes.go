package exact

import (
	"bufio"
	"bytes"
	"errors"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// readNodes reads node ids below nodes, one a line, and returns them ascending, each once. A
// first line "node", as a prediction's own has it, empty lines and those that begin with # are
// left out, and so is what follows a comma.
func readNodes(fsys vfs.FS, name string, nodes int64) ([]uint32, error) {
	f, err := fsys.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.ErrUsage, "--nodes %s: there is no such file, and no split of this name: all, %s", name, strings.Join(splits, ", "))
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	ids := []uint32{} // not nil, which would be all
	number := 0
	for lines.Scan() {
		number++
		text, _, _ := bytes.Cut(lines.Bytes(), []byte(","))
		text = bytes.TrimSpace(text)
		if len(text) == 0 || text[0] == '#' || number == 1 && string(text) == "node" {
			continue
		}
		id, err := strconv.ParseUint(string(text), 10, 64)
		if err != nil {
			return nil, fault.New(fault.ErrInput, "%s:%d: %q is no node id", name, number, shortened(text))
		}
		if id >= uint64(nodes) {
			return nil, fault.New(fault.ErrInput, "%s:%d: node %d, where the graph has %d nodes", name, number, id, nodes)
		}
		if int64(len(ids)) == nodes {
			return nil, fault.New(fault.ErrInput, "%s names nodes twice: it has more lines than the graph nodes", name)
		}
		ids = append(ids, uint32(id))
	}
	if err := lines.Err(); err != nil {
		return nil, fault.New(fault.ErrInput, "%s:%d: %v", name, number+1, err)
	}
	if len(ids) == 0 {
		return nil, fault.New(fault.ErrInput, "%s names no nodes", name)
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

func shortened(text []byte) string {
	if len(text) > 40 {
		return string(text[:40]) + "…"
	}
	return string(text)
}
