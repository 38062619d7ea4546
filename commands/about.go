package commands

import (
	"context"
	_ "embed"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"diskgnn/doctor"
	"diskgnn/doctor/bundle"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/program"
	"diskgnn/internal/units"
)

const doctorTeaches = `Lists the facilities of this machine that the program can use, and for each missing one
the reason and the one change that helps: processor, OpenBLAS, memory, locked memory,
huge pages; io_uring, direct I/O and the drive of a directory; GPU, drives that write to
its memory, cuFile; NVMe drives that this program can drive by itself. The exit code is 0,
also when facilities are missing.

   diskgnn doctor
   diskgnn doctor --dir /mnt/nvme --json
   diskgnn doctor --bundle report.tar.gz pack run

--bundle also writes an archive for a report of a bug: the version of the program, these
findings, the machine's limits and drives, and of each named directory the names and sizes
of its files, the parameters, figures and errors in its metadata, and the latest lines of
metrics.jsonl. It has no features, edges, labels, ids, weights, names of classes, nodes or
hosts, no environment, no secrets, and of a path its last element only. Directories may be
damaged or unfinished.

'diskgnn bench io' measures the speed of the drive.`

// doctorCommand reports the facilities of the machine.
func doctorCommand() command {
	directory := "."
	var o bundle.Options
	return command{
		name:     "doctor",
		usage:    "list the facilities of this machine, and how to add others",
		teaches:  doctorTeaches,
		operands: []string{"[DIR...]"},
		flags: flags{
			stringFlag("dir", "DIR", "directory for the data: direct I/O and the drive are examined there", &directory),
			stringFlag("bundle", "FILE", "write an archive (.tar.gz) for a report of a bug, with metadata of the directories DIR and no data", &o.Out),
			boolFlag("force", "replace an existing archive", &o.Force),
		},
		check: func(s *session) error {
			if o.Out == "" {
				return checkOperands(s.args, nil)
			}
			if !strings.HasSuffix(o.Out, ".tar.gz") {
				return fault.New(fault.ErrUsage, "--bundle %s: give the name of a .tar.gz", o.Out)
			}
			return nil
		},
		run: func(ctx context.Context, s *session) (outcome, error) {
			r := doctor.Here().Examine(ctx, directory)
			var lines []line
			for _, f := range r.Findings {
				lines = append(lines, line{f.Name, f.State + ": " + f.Found})
				if f.Change != "" {
					lines = append(lines, line{"", "to change it: " + f.Change})
				}
			}
			if o.Out == "" || ctx.Err() != nil {
				return outcome{object: r, lines: lines}, ctx.Err()
			}
			v := buildVersion()
			v.SHA256 = program.Hash()
			o.Directories, o.Facts = s.args, []bundle.Fact{{Name: "version.json", Value: v}, {Name: "doctor.json", Value: r}}
			var err error
			if r.Bundle, err = bundle.Write(ctx, s.disk, o); err != nil {
				return outcome{}, err
			}
			lines = append(lines, line{"bundle", fmt.Sprintf("%s, %s in %s; look into it before you send it", r.Bundle.Path, budget.FormatBytes(r.Bundle.Bytes), units.Of(len(r.Bundle.Entries), "file"))})
			for _, n := range r.Bundle.Notes {
				lines = append(lines, line{"", n})
			}
			return outcome{object: r, lines: lines}, nil
		},
	}
}

// completing is the flag with which a shell requests completions.
const completing = "--generate-bash-completion"

//go:embed completion/diskgnn.bash
var bashCompletion string

//go:embed completion/diskgnn.zsh
var zshCompletion string

const completionTeaches = `Prints a script that makes a shell complete commands and flags.

   source <(diskgnn completion bash)                                     # this shell
   diskgnn completion bash > /etc/bash_completion.d/diskgnn              # all shells
   diskgnn completion zsh > "${fpath[1]}/_diskgnn"
   diskgnn completion fish > ~/.config/fish/completions/diskgnn.fish`

// completion is the command's output with --json.
type completion struct {
	Shell  string `json:"shell"`
	Script string `json:"script"`
}

func completionCommand() command {
	return command{
		name:     "completion",
		usage:    "print a script that makes a shell complete commands and flags",
		teaches:  completionTeaches,
		operands: []string{"SHELL"},
		run: func(_ context.Context, s *session) (outcome, error) {
			c := completion{Shell: s.args[0]}
			switch c.Shell {
			case "bash":
				c.Script = bashCompletion
			case "zsh":
				c.Script = zshCompletion
			case "fish":
				var err error
				if c.Script, err = newApp(s.g.silent()).ToFishCompletion(); err != nil {
					return outcome{}, fmt.Errorf("write the script: %w", err)
				}
			default:
				return outcome{}, fault.New(fault.ErrUsage, "no script for the shell %q; use bash, zsh or fish", c.Shell)
			}
			return outcome{object: c, text: c.Script}, nil
		},
	}
}

// manual is man's output with --json.
type manual struct {
	Page string `json:"page"`
}

const manTeaches = `Prints the manual page of the program with all its commands, section 1.

   diskgnn man | man -l -
   diskgnn man > /usr/local/share/man/man1/diskgnn.1`

func manCommand() command {
	return command{
		name:    "man",
		usage:   "print the manual page",
		teaches: manTeaches,
		run: func(_ context.Context, s *session) (outcome, error) {
			page, err := newApp(s.g.silent()).ToManWithSection(1)
			if err != nil {
				return outcome{}, fmt.Errorf("write the manual page: %w", err)
			}
			page = strings.TrimRight(page, "\n") + "\n"
			return outcome{object: manual{page}, text: page}, nil
		},
	}
}

// version describes the build of this program.
type version struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Time     string `json:"time,omitempty"`
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	GPU      bool   `json:"gpu"`      // the program is the gpu variant
	Assembly bool   `json:"assembly"` // the program has kernels in assembly
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

// builtIn lists the optional parts of this build.
func (v version) builtIn() string {
	gpu, assembly := "no GPU support (make build-gpu builds it)", "no kernels in assembly"
	if v.GPU {
		gpu = "GPU support"
	}
	if v.Assembly {
		assembly = "kernels in assembly"
	}
	return gpu + ", " + assembly
}

func versionCommand() command {
	return command{
		name:    "version",
		usage:   "print the version and the build of this program",
		teaches: "Prints the version, the revision, the Go release of the build, the optional parts that were built in, and the SHA-256 of the program's file. The ranks of a run compare this hash: all must run the same program.",
		run: func(context.Context, *session) (outcome, error) {
			v := buildVersion()
			v.SHA256 = program.Hash()
			return outcome{object: v, lines: []line{{"diskgnn", v.String()}, {"built in", v.builtIn()}, {"SHA-256", v.SHA256}}}, nil
		},
	}
}
