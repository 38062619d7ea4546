package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/urfave/cli/v2"
)

// version is what this binary was built from.
type version struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Time     string `json:"time,omitempty"`
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
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
		}
	}
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

func newVersionCommand(g *globals) *cli.Command {
	return g.add(command{
		name:    "version",
		usage:   "say what this program was built from",
		teaches: "Prints the version, the revision, and the Go release that built it.",
		run: func(context.Context, *session) (outcome, error) {
			v := buildVersion()
			return outcome{object: v, lines: []line{{"diskgnn", v.String()}}}, nil
		},
	})
}
