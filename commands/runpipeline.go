package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"diskgnn/internal/fault"
	"diskgnn/internal/stage"
	"diskgnn/internal/units"
	"diskgnn/internal/vfs"
	"diskgnn/train/exact"
	"diskgnn/train/rundir"
)

const runTeaches = `Runs the commands that have sections in a configuration file, one after the other:
generate or import, presample, pack, train, eval, predict, report. Finished outputs are
kept and interrupted commands are resumed, so the same command continues after an
interruption.

   diskgnn run --config examples/generated.yaml
   diskgnn run --config computers.yaml path/to/amazon-computers.npz
   diskgnn run --config pipeline.yaml --dry-run      show the state, do nothing
   diskgnn run --config pipeline.yaml --until pack

All sections are checked before the first command runs: keys, values, and the parameters of
existing outputs.

SOURCE is the source of import, if the file does not have it (import: source: PATH). Sections
have the keys of 'diskgnn COMMAND --config'; 'train' gets --resume. eval and report run each
time; predict runs unless its file has the same lineage: weights, graph, output and nodes.`

// pipelineOrder is the order of the commands of a pipeline.
var pipelineOrder = []string{"generate", "import", "presample", "pack", "train", "eval", "predict", "report"}

// pipelineStep is the part of run's output about one command.
type pipelineStep struct {
	Command string  `json:"command"`
	Out     string  `json:"out,omitempty"`
	State   string  `json:"state"` // before the command: missing, begun, finished; after it: new, resumed, done, skipped
	Seconds float64 `json:"seconds"`
	Result  any     `json:"result,omitempty"`  // the command's output with --json
	Problem string  `json:"problem,omitempty"` // of a command to come: the memory or disk space that it lacks

	shown []line // lines of the result for people: scores, or a plan
}

// stepError is the error of a command of a pipeline, with the output about the commands before it.
type stepError struct {
	error
	step  string
	steps []pipelineStep
}

func (e *stepError) Unwrap() error { return e.error }

// pipelineRun is run's output.
type pipelineRun struct {
	Steps   []pipelineStep `json:"steps"`
	Seconds float64        `json:"seconds"`
}

func runCommand() command {
	var dry bool
	var until string
	return command{
		name:     "run",
		resumes:  byItself,
		ofOthers: true,
		usage:    "run all stages of a configuration file that are not finished",
		teaches:  runTeaches,
		operands: []string{"[SOURCE...]"},
		flags: flags{
			boolFlag("dry-run", "print the state of every output, and do nothing", &dry),
			flag("until", "COMMAND", "the last command to run", "all of the file's", oneOf(&until, pipelineOrder)),
		},
		run: func(ctx context.Context, s *session) (outcome, error) {
			p, err := readPipeline(s.g, s.args, until)
			if err == nil {
				err = p.check(ctx)
			}
			if err != nil {
				return outcome{}, err
			}
			return p.run(ctx, s, dry)
		},
	}
}

// pipelineFile is the commands of a configuration file.
type pipelineFile struct {
	*configuration
	g        *globals
	sources  []string
	until    string // the last command to run; "": the file's last
	commands []string
}

func readPipeline(g *globals, sources []string, until string) (*pipelineFile, error) {
	if err := required("config", g.config); err != nil {
		return nil, err
	}
	read, err := openConfiguration(newApp(g.silent()), g.config, g.stores)
	if err != nil {
		return nil, err
	}
	if err := read.check(nil); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(read.sections)) {
		if !slices.Contains(pipelineOrder, name) {
			return nil, fault.New(fault.ErrUsage, "%s has a section for %s, which run does not carry out: its commands are %s", g.config, name, strings.Join(pipelineOrder, ", "))
		}
	}
	p := &pipelineFile{configuration: read, g: g, sources: sources, until: until}
	for _, name := range pipelineOrder {
		if _, ok := p.sections[name]; ok {
			p.commands = append(p.commands, name)
		}
		if name == until {
			break
		}
	}
	if len(p.commands) == 0 {
		return nil, fault.New(fault.ErrUsage, "%s has no section for any of the commands %s", p.file, strings.Join(pipelineOrder, ", "))
	}
	if slices.Contains(p.commands, "generate") && slices.Contains(p.commands, "import") {
		return nil, fault.New(fault.ErrUsage, "%s has sections of both generate and import: a pipeline has one dataset", p.file)
	}
	if len(sources) > 0 && !slices.Contains(p.commands, "import") {
		return nil, fault.New(fault.ErrUsage, "%s is a source for import, but %s has no section for import", strings.Join(sources, " "), p.file)
	}
	return p, nil
}

// value returns the file's value of a command's flag, "" if it has none.
func (p *pipelineFile) value(command, key string) string {
	for _, s := range p.of(command, nothingGiven) {
		if s.key == key {
			return s.value
		}
	}
	return ""
}

// check returns, before the first command begins, the errors of all commands' sections, and of existing
// outputs that the commands would refuse.
func (p *pipelineFile) check(ctx context.Context) error {
	if p.value("train", "force") == "true" && slices.Contains(p.commands, "train") {
		return fault.New(fault.ErrUsage, "train: %s has force: true for train, but run always resumes train: leave it out, and remove the run (rm -r %s) to train again",
			p.file, units.ShellWord(p.value("train", "out")))
	}
	for _, command := range p.commands {
		flags, operands := p.words(command)
		_, err := p.command(ctx, command, true, flags, operands)
		if err != nil && !(command == "pack" && errors.Is(err, fault.ErrLineage) && p.drawsFor("pack")) {
			return p.named(command, err)
		}
	}
	made := make(map[string]bool)
	for _, command := range p.commands {
		if err := p.checkInputs(ctx, command, made); err != nil {
			return p.named(command, err)
		}
		made[filepath.Clean(p.value(command, "out"))] = true
	}
	return nil
}

// drawsFor reports whether the file's presample makes a command's samples, from the command's dataset. The
// check of presample has passed then: if the present samples are of another graph, it draws them again.
func (p *pipelineFile) drawsFor(command string) bool {
	same := func(key, made string) bool {
		return filepath.Clean(p.value(command, key)) == filepath.Clean(p.value("presample", made))
	}
	return slices.Contains(p.commands, "presample") && same("samples", "out") && same("dataset", "dataset")
}

// checkInputs returns an error if an input directory of a command neither exists nor is made by an earlier
// command. train with a finished run does not read its inputs.
func (p *pipelineFile) checkInputs(ctx context.Context, command string, made map[string]bool) error {
	if command == "train" {
		if state, err := p.state(ctx, command, p.value(command, "out")); err != nil || state == "finished" {
			return err
		}
	}
	for _, key := range []string{"dataset", "samples", "pack", "run"} {
		dir := p.value(command, key)
		if dir == "" || made[filepath.Clean(dir)] {
			continue
		}
		if there, err := vfs.Exists(vfs.OS, dir); err != nil {
			return err
		} else if !there {
			return fault.New(fault.ErrInput, "there is no %s at %s, and no earlier section makes it", key, dir)
		}
	}
	return nil
}

// maker matches the command, or the two, that an error proposes with --force.
var maker = regexp.MustCompile(`diskgnn ([a-z]+)(?: or ([a-z]+))?(?: --shard)? with --force`)

// forced returns the section that takes the --force of a command's error: the section of the command with which
// the error proposes it, else the failed command's own. It returns "" if the file has no such section.
func (p *pipelineFile) forced(command string, err error) string {
	proposed := maker.FindStringSubmatch(err.Error())
	if proposed == nil {
		return command
	}
	for _, name := range proposed[1:] {
		if _, ok := p.sections[name]; ok {
			return name
		}
	}
	return ""
}

// named adds the name of the command to an error, unless the stage has added it, and a remedy in terms of
// the file in place of --force, which run does not have.
func (p *pipelineFile) named(command string, err error) error {
	if !strings.HasPrefix(err.Error(), command+": ") {
		err = fmt.Errorf("%s: %w", command, err)
	}
	out := p.value("train", "out")
	begun, _ := vfs.Exists(vfs.OS, filepath.Join(out, stage.RunFile))
	other := command == "train" && begun && (errors.Is(err, fault.ErrLineage) || errors.Is(err, fault.ErrExists))
	section := ""
	if other || strings.Contains(err.Error(), "--force") {
		section = p.forced(command, err)
	}
	switch section {
	case "":
		return err
	case "train":
		return fmt.Errorf("%w; run always resumes train: remove the run (rm -r %s) to train again", err, units.ShellWord(out))
	}
	return fmt.Errorf("%w (for --force, write force: true into the section %s of %s)", err, section, p.file)
}

// run carries out the commands or, with dry, describes them.
func (p *pipelineFile) run(ctx context.Context, s *session, dry bool) (outcome, error) {
	began := time.Now()
	var done pipelineRun
	for i, command := range p.commands {
		step := pipelineStep{Command: command}
		var err error
		if step.Out, err = vfs.Destination(p.value(command, "out")); err != nil {
			return outcome{}, fmt.Errorf("%s: %w", command, err)
		}
		if step.State, err = p.state(ctx, command, step.Out); err != nil {
			return outcome{}, err
		}
		if dry {
			if command == "pack" && step.State == "missing" {
				p.plan(ctx, &step)
			}
			done.Steps = append(done.Steps, step)
			continue
		}
		s.rep.Logf("%d of %d: %s", i+1, len(p.commands), command)
		if err := p.do(ctx, &step); err != nil {
			return outcome{}, &stepError{err, command, done.Steps}
		}
		done.Steps = append(done.Steps, step)
	}
	done.Seconds = time.Since(began).Seconds()
	out := outcome{object: done}
	for _, step := range done.Steps {
		text := step.State
		if !dry {
			text += ", " + units.Seconds(step.Seconds)
		}
		if step.Out != "" {
			text += ": " + step.Out
		}
		out.lines = append(out.lines, line{step.Command, text})
		for _, l := range step.shown {
			out.lines = append(out.lines, line{"  " + l.label, l.text})
		}
	}
	if dry {
		out.next = p.repeated()
	} else if slices.Contains(p.commands, "train") {
		out.lines = append(out.lines, line{"report", filepath.Join(p.value("train", "out"), rundir.ReportFile)})
	}
	return out, nil
}

// repeated returns the command line of this run.
func (p *pipelineFile) repeated() string {
	words := []string{"diskgnn run --config", units.ShellWord(p.file)}
	if p.until != "" {
		words = append(words, "--until", p.until)
	}
	for _, source := range p.sources {
		words = append(words, units.ShellWord(source))
	}
	return strings.Join(words, " ")
}

// state describes the existing output of a command.
func (p *pipelineFile) state(ctx context.Context, command, out string) (string, error) {
	if out == "" { // the command itself checks whether it needs an output
		return "missing", nil
	}
	switch command {
	case "eval", "report":
		return "missing", nil
	case "predict":
		if there, err := vfs.Exists(vfs.OS, out); err != nil || !there {
			return "missing", err
		}
		o := exact.PredictOptions{Out: out, Output: p.value(command, "output"), Nodes: p.value(command, "nodes")}
		o.Run, o.Dataset, o.Weights, o.BLAS = p.value(command, "run"), p.value(command, "dataset"), p.value(command, "weights"), p.value(command, "blas")
		done, err := exact.Finished(ctx, vfs.OS, o)
		if err != nil || done == nil || p.value(command, "force") == "true" {
			return "begun", err // another prediction, or another file
		}
		return "finished", nil
	case "train":
		f, err := rundir.ReadSummary(vfs.OS, out)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return "missing", nil
		case err != nil:
			return "", err
		case f.State == rundir.StateFinished:
			return "finished", nil
		}
		return "begun", nil
	}
	if there, err := vfs.Exists(vfs.OS, filepath.Join(out, stage.MetaFile)); err != nil || there {
		return "finished", err
	}
	if there, err := vfs.Exists(vfs.OS, stage.Partial(out)); err != nil || there {
		return "begun", err
	}
	return "missing", nil
}

// do runs a command by a command line, so that it behaves as if it was called by itself.
func (p *pipelineFile) do(ctx context.Context, step *pipelineStep) error {
	if step.Command == "predict" && step.State == "finished" {
		step.State = "skipped"
		return nil
	}
	began := time.Now()
	flags, operands := p.words(step.Command)
	made, err := p.command(ctx, step.Command, false, flags, operands)
	const again = "to go on with the pipeline, repeat diskgnn run"
	if errors.Is(err, fault.ErrInterrupted) {
		err = fmt.Errorf("%w; %s", err, again)
	} else if context.Cause(ctx) != nil {
		err = interrupted(err, again)
	}
	if err != nil {
		return p.named(step.Command, err)
	}
	step.Seconds, step.Result, step.State = time.Since(began).Seconds(), made.object, "new"
	if state := stateOf(made.object); state != "" {
		step.State = state
	}
	for _, l := range made.lines {
		if l.label == "train" || l.label == "validation" || l.label == "test" {
			step.shown = append(step.shown, l)
		}
	}
	return nil
}

// words returns a command's arguments in addition to the configuration file.
func (p *pipelineFile) words(command string) (flags, operands []string) {
	switch command {
	case "import":
		return nil, p.sources
	case "train":
		return []string{"--resume"}, nil
	case "predict":
		return []string{"--force"}, nil
	case "report":
		if out := p.value("train", "out"); out != "" {
			return nil, []string{out}
		}
	}
	return nil, nil
}

// plan adds the prediction of pack to a step, if its inputs exist, or the reason why memory or disk space
// do not suffice for it.
func (p *pipelineFile) plan(ctx context.Context, step *pipelineStep) {
	made, err := p.command(ctx, "pack", false, []string{"--plan"}, nil)
	switch {
	case err == nil:
		step.Result, step.shown = made.object, made.lines
	case errors.Is(err, fault.ErrBudget):
		step.Problem = err.Error()
		step.shown = []line{{"problem", step.Problem}}
	}
}

// stateOf returns the state in a command's result, "" if it has none.
func stateOf(result any) string {
	var v struct {
		State string `json:"state"`
	}
	if b, err := json.Marshal(result); err != nil || json.Unmarshal(b, &v) != nil {
		return ""
	}
	return v.State
}

// command runs a command with the configuration file. With look it only checks the command's arguments and
// existing output.
func (p *pipelineFile) command(ctx context.Context, name string, look bool, flags, operands []string) (outcome, error) {
	var made outcome
	g := &globals{stores: p.g.stores, stdout: p.g.stdout, stderr: p.g.stderr, making: p.g.making, collect: func(o outcome) { made = o }, look: look}
	words := append([]string{"diskgnn", name, "--config", p.file, "--progress", p.g.progressKind()}, flags...)
	g.args = append(append(words, "--"), operands...)
	err := newApp(g).RunContext(ctx, g.args)
	return made, err
}
