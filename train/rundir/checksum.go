package rundir

import (
	"bytes"
	"encoding/json"
	"errors"

	"diskgnn/internal/binio"
)

// Of run.json, what precedes the checksum's digits at its end, and what follows them.
const (
	sumBegin = ",\n  \"checksum\": \""
	sumEnd   = "\"\n}\n"
	sumBytes = 64 // digits
)

// errChecksum says that a run.json is not what was written.
var errChecksum = errors.New("it does not match the checksum at its end: it was edited or damaged")

// Encode returns v as run.json holds it: with its checksum as the last member. v encodes as a JSON
// object that has members.
func Encode(v any) ([]byte, error) {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return nil, err
	}
	b = bytes.TrimSuffix(b, []byte("\n}"))
	sum := binio.Hash(b)
	return append(append(append(b, sumBegin...), sum...), sumEnd...), nil
}

// checkSum compares the content of a run.json with the checksum at its end, and reports whether it
// has one.
func checkSum(b []byte) (summed bool, err error) {
	at := len(b) - len(sumEnd) - sumBytes
	if at < len(sumBegin) || !bytes.HasSuffix(b[:at], []byte(sumBegin)) || !bytes.HasSuffix(b, []byte(sumEnd)) {
		return false, nil
	}
	if binio.Hash(b[:at-len(sumBegin)]) != string(b[at:at+sumBytes]) {
		return true, errChecksum
	}
	return true, nil
}
