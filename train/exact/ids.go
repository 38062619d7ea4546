package exact

import (
	"bufio"
	"encoding/binary"
	"strconv"
	"strings"

	"diskgnn/dataset"
)

// idsKind says how the rows of a prediction are called.
type idsKind string

const (
	idsNone    idsKind = ""                // the rows are all nodes with outputs: the number of a row is its node
	idsNodes   idsKind = "nodes"           // by the numbers of the nodes, uint32; in a typed graph, in their type
	idsNumbers idsKind = dataset.IDNumbers // by original ids, int64
	idsNames   idsKind = dataset.IDNames   // by original ids, names
)

// rowIDs are the ids of a prediction's rows. Calls go through the rows in ascending order, once.
type rowIDs interface {
	kind() idsKind
	len() int
	// number returns the id of row i, unless ids are names.
	number(i int) (int64, error)
	// name appends the id of row i, which is a name.
	name(b []byte, i int) ([]byte, error)
}

// Suffixes in place of .npy for the file of ids: an array, or a text with one id a line.
const (
	nodesSuffix = ".nodes.npy"
	namesSuffix = ".nodes.txt"
)

// idsFile returns the name of the file of ids beside an array's, or "" if there is none.
func idsFile(name string, kind idsKind) string {
	name = strings.TrimSuffix(name, suffixNPY)
	switch kind {
	case idsNone:
		return ""
	case idsNames:
		return name + namesSuffix
	}
	return name + nodesSuffix
}

// appendID appends the id of row i as a field of a line: in quotes if it would be misread otherwise.
func appendID(b []byte, ids rowIDs, i int) ([]byte, error) {
	if ids.kind() != idsNames {
		id, err := ids.number(i)
		return strconv.AppendInt(b, id, 10), err
	}
	begin := len(b)
	b, err := ids.name(b, i)
	if err != nil {
		return b, err
	}
	return quoted(b[:begin], string(b[begin:])), nil
}

// quoted appends a name to a line of CSV, in quotes if it could be read as something else.
func quoted(b []byte, name string) []byte {
	if !strings.ContainsAny(name, ",\"") && name == strings.TrimSpace(name) && name != "" && name[0] != '#' && name != "node" {
		return append(b, name...)
	}
	b = append(b, '"')
	b = append(b, strings.ReplaceAll(name, `"`, `""`)...)
	return append(b, '"')
}

// writeIDs writes the ids of all rows, little-endian; names one a line, in quotes where a line of CSV needs them
// and quotes says so.
func writeIDs(w *bufio.Writer, ids rowIDs, quotes bool) error {
	var line []byte
	for i := range ids.len() {
		var err error
		switch kind := ids.kind(); {
		case kind == idsNames && quotes:
			line, err = appendID(line[:0], ids, i)
			line = append(line, '\n')
		case kind == idsNames:
			line, err = ids.name(line[:0], i)
			line = append(line, '\n')
		default:
			var id int64
			id, err = ids.number(i)
			if line = binary.LittleEndian.AppendUint64(line[:0], uint64(id)); kind == idsNodes {
				line = line[:4]
			}
		}
		if err == nil {
			_, err = w.Write(line)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
