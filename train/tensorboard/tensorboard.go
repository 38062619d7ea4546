// Package tensorboard writes a run's epochs as an event file, which TensorBoard shows.
//
// The file is a sequence of TFRecords, each with a protocol buffer of type Event:
//
//	offset  size  field
//	0       8     n, uint64
//	8       4     masked CRC-32C of the 8 bytes before
//	12      n     the Event
//	12+n    4     masked CRC-32C of the Event
//
// A masked CRC c is (c >> 15 | c << 17) + 0xa282ead8 mod 2³²; all numbers are
// little-endian. The first Event has the version "brain.Event:2", each other one an epoch's
// scalars. Of the messages, only these fields are written:
//
//	Event    1 wall_time double   2 step int64   3 file_version string   5 summary Summary
//	Summary  1 value repeated Value
//	Value    1 tag string         2 simple_value float
//
// An epoch's wall time is when the run began, and the seconds of training and validation
// since: the same metrics give the same bytes, and more epochs more of them, so a file that
// is written again goes on where TensorBoard stopped reading.
package tensorboard

import (
	"encoding/binary"
	"math"
	"path/filepath"
	"time"

	"diskgnn/internal/binio"
	"diskgnn/internal/vfs"
	"diskgnn/train/rundir"
)

// FileName is the name of the event file in its directory. TensorBoard looks for "tfevents".
const FileName = "events.out.tfevents.0.diskgnn"

const version = "brain.Event:2"

// Write makes dir, if it is not there, and in it the event file of a run that began at a
// time; one that is there is replaced.
func Write(fsys vfs.FS, dir string, begun time.Time, epochs []rundir.Epoch) error {
	if err := vfs.MakeParents(fsys, dir); err != nil {
		return err
	}
	if err := fsys.MkdirAll(dir); err != nil {
		return err
	}
	return vfs.ReplaceFile(fsys, filepath.Join(dir, FileName), encode(begun, epochs))
}

func encode(begun time.Time, epochs []rundir.Epoch) []byte {
	at := float64(begun.UnixMicro()) / 1e6
	file := appendRecord(nil, appendText(appendTime(nil, at), 3, version))
	for i := range epochs {
		e := &epochs[i]
		at += e.Seconds + e.ValidSeconds
		var summary []byte
		for _, s := range scalars(e) {
			if !math.IsNaN(s.value) {
				summary = appendBytes(summary, 1, s.encode())
			}
		}
		event := appendTime(nil, at)
		event = binary.AppendUvarint(append(event, 2<<3|varint), uint64(e.Epoch))
		file = appendRecord(file, appendBytes(event, 5, summary))
	}
	return file
}

type scalar struct {
	tag   string
	value float64 // NaN: there is none
}

// scalars returns the scalars of an epoch's event.
func scalars(e *rundir.Epoch) []scalar {
	return []scalar{
		{"loss", float64(e.Loss)},
		{"accuracy/train", float64(e.TrainAccuracy)},
		{"accuracy/valid", float64(e.ValidAccuracy)},
		{"learning_rate", float64(e.LR)},
		{"epoch/seconds", e.Seconds},
		{"epoch/read_seconds", e.ReadSeconds},
		{"epoch/compute_seconds", e.ComputeSeconds},
		{"read/bytes", float64(e.BytesRead)},
		{"read/useful_bytes", float64(e.UsefulBytes)},
		{"read/bytes_per_second", float64(e.ReadRate)},
	}

}

func (s scalar) encode() []byte {
	b := appendText(nil, 1, s.tag)
	return binary.LittleEndian.AppendUint32(append(b, 2<<3|fixed32), math.Float32bits(float32(s.value)))
}

// Wire types of protocol buffers.
const (
	varint  = 0
	fixed64 = 1
	length  = 2
	fixed32 = 5
)

func appendTime(b []byte, seconds float64) []byte {
	return binary.LittleEndian.AppendUint64(append(b, 1<<3|fixed64), math.Float64bits(seconds))
}

func appendText(b []byte, field byte, s string) []byte { return appendBytes(b, field, []byte(s)) }

func appendBytes(b []byte, field byte, content []byte) []byte {
	b = binary.AppendUvarint(append(b, field<<3|length), uint64(len(content)))
	return append(b, content...)
}

func appendRecord(file, record []byte) []byte {
	start := len(file)
	file = binary.LittleEndian.AppendUint64(file, uint64(len(record)))
	file = binary.LittleEndian.AppendUint32(file, masked(file[start:]))
	file = append(file, record...)
	return binary.LittleEndian.AppendUint32(file, masked(record))
}

func masked(b []byte) uint32 {
	c := binio.CRC(b)
	return (c>>15 | c<<17) + 0xa282ead8
}
