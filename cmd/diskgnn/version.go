package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"diskgnn/internal/program"
)

// version is what this binary was built from.
type version struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Time     string `json:"time,omitempty"`
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	GPU      bool   `json:"gpu"`      // the variant that can use one
	Assembly bool   `json:"assembly"` // kernels for this platform's processors
	Cgo      bool   `json:"cgo"`
	Tags     string `json:"tags,omitempty"` // of the build, with commas between
	SHA256   string `json:"sha256"`         // of the program's file
}

func buildVersion() version {
	v := version{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.time":
			v.Time = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		case "CGO_ENABLED":
			v.Cgo = s.Value == "1"
		case "-tags":
			v.Tags = s.Value
		}
	}
	tags := strings.Split(v.Tags, ",")
	v.GPU = slices.Contains(tags, "gpu")
	v.Assembly = runtime.GOARCH == "amd64" && !slices.Contains(tags, "noasm")
	return v
}

func (v version) String() string {
	s := v.Version
	if v.Revision != "" {
		s += fmt.Sprintf(" %.12s", v.Revision)
	}
	if v.Time != "" {
		s += " of " + v.Time
	}
	if v.Modified {
		s += ", modified"
	}
	return fmt.Sprintf("%s (%s, %s)", s, v.Go, v.Platform)
}

// builtIn says what of the parts that a build may lack is there.
func (v version) builtIn() string {
	gpu, assembly := "no GPU support (make build-gpu has it)", "no kernels in assembly"
	if v.GPU {
		gpu = "GPU support"
	}
	if v.Assembly {
		assembly = "kernels in assembly"
	}
	return gpu + ", " + assembly
}

func newVersionCommand(g *globals) *cli.Command {
	return g.add(command{
		name:    "version",
		usage:   "say what this program was built from",
		teaches: "Prints the version, the revision, the Go release that built it, what was built in, and the SHA-256 of its file, by which ranks tell that all run one program.",
		run: func(context.Context, *session) (outcome, error) {
			v := buildVersion()
			v.SHA256 = program.Hash()
			return outcome{object: v, lines: []line{{"diskgnn", v.String()}, {"built in", v.builtIn()}, {"SHA-256", v.SHA256}}}, nil
		},
	})
}
