package monitor

import (
	"bytes"
	"math"
	"strconv"
	"strings"
)

// exposition is a text in Prometheus' exposition format, version 0.0.4:
//
//	# HELP name description
//	# TYPE name counter
//	name{label="value"} 7
//
// The samples of a family follow its head. Each has the family's name: there are no histograms
// here. Prometheus' client library is not used: it needs six modules and makes the program 4 MB
// larger.
type exposition struct {
	bytes.Buffer
	name string // of the family
}

// contentType is the content type of the text.
const contentType = "text/plain; version=0.0.4; charset=utf-8"

// Kinds of metrics.
const (
	counter = "counter"
	gauge   = "gauge"
)

var (
	escapeHelp  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	escapeLabel = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)

// family begins a family of samples.
func (x *exposition) family(name, kind, help string) {
	x.name = name
	x.WriteString("# HELP " + name + " " + escapeHelp.Replace(help) + "\n# TYPE " + name + " " + kind + "\n")
}

// sample writes a sample of the family, unless its value is undefined: labels are names and values
// in turn.
func (x *exposition) sample(v float64, labels ...string) {
	if math.IsNaN(v) {
		return
	}
	x.WriteString(x.name)
	for i := 0; i < len(labels); i += 2 {
		x.WriteString([]string{"{", ","}[min(i, 1)] + labels[i] + `="` + escapeLabel.Replace(strings.ToValidUTF8(labels[i+1], "\uFFFD")) + `"`)
	}
	if len(labels) > 0 {
		x.WriteByte('}')
	}
	x.WriteByte(' ')
	x.Write(strconv.AppendFloat(nil, v, 'g', -1, 64))
	x.WriteByte('\n')
}

// one is a family of one sample without labels.
func (x *exposition) one(name, kind, help string, v float64) {
	if math.IsNaN(v) {
		return
	}
	x.family(name, kind, help)
	x.sample(v)
}
