package commands

import (
	"cmp"
	"context"
	"io"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/urfave/cli/v2"

	"diskgnn/featurestore/stores"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/progress/render"
	"diskgnn/internal/progress/stall"
	"diskgnn/internal/vfs"
)

const about = `Samples every mini-batch before training, lays the features out on disk in the
order in which they will be read, and trains from there.

   diskgnn generate  --out graph                                make one, or
   diskgnn import    --format graphbolt --out graph SOURCE      import yours
   diskgnn presample --dataset graph --out samples --epochs 5
   diskgnn pack      --dataset graph --samples samples --out pack
   diskgnn train     --pack pack --out run
   diskgnn eval      --run run --dataset graph --exact          score it
   diskgnn predict   --run run --dataset graph --out logits.npy use it

   diskgnn run       --config pipeline.yaml                     all of it

Each stage writes one directory, does nothing when it is there already, and
resumes when it was interrupted. 'diskgnn COMMAND --help' has examples.

Exit codes: 0 done, 1 internal error, 2 usage or an output that exists, 3 bad or
corrupt input, 4 out of disk or memory, 5 interrupted, 6 locked, 134 ended by
the Go runtime.`

// globals is the shared state of all commands: their output, and the flags that every command has.
type globals struct {
	stores         stores.List // of this program
	stdout, stderr io.Writer
	command        string   // the running command
	args           []string // the command line, the program's name first
	resumes        atomic.Pointer[string]
	making         *making        // the output of the running command
	disk           vfs.FS         // nil: the operating system's
	exit           func(code int) // ends the process at once; nil: os.Exit

	config   string
	json     bool
	quiet    bool
	progress string // one of progressKinds

	collect func(outcome) // receives a command's outcome; nil: the outcome is printed
	look    bool          // the command only checks its arguments and its existing output
}

// progressKinds are the ways of showing progress on stderr.
var progressKinds = []string{"auto", "json", "none"}

// progressKind returns the way of showing progress, as set by --progress and --quiet.
func (g *globals) progressKind() string {
	switch {
	case g.progress != "" && g.progress != "auto":
		return g.progress
	case g.quiet:
		return "none"
	}
	return "auto"
}

// reporter returns the reporter of a command's progress.
func (g *globals) reporter() render.Reporter {
	switch g.progressKind() {
	case "json":
		return stall.Watch(render.Events(g.stderr))
	case "none":
		return render.Quiet()
	}
	return stall.Watch(render.New(g.stderr))
}

// starts records the running command, and the advice for resuming it after an interruption.
func (g *globals) starts(name, resumes string) {
	g.command = name
	g.resumes.Store(&resumes)
}

// goOn returns the advice after an interruption. It is safe for concurrent use.
func (g *globals) goOn() string {
	if r := g.resumes.Load(); r != nil && *r != "" {
		return *r
	}
	return nothing
}

// newApp returns the command line. Only run prints errors and exits.
func newApp(g *globals) *cli.App {
	if g.making == nil {
		g.making = new(making)
	}
	return &cli.App{
		Name:            "diskgnn",
		Usage:           "train graph neural networks on graphs larger than memory",
		UsageText:       "diskgnn COMMAND [flags]",
		Description:     reflow(about, helpWidth-3),
		Version:         buildVersion().String(),
		Writer:          g.stdout,
		ErrWriter:       g.stderr,
		HideHelpCommand: false,

		EnableBashCompletion: true,
		ExitErrHandler:       func(*cli.Context, error) {},
		OnUsageError:         func(c *cli.Context, err error, _ bool) error { return usageError(err, c.App.Flags, "diskgnn") },
		Action:               noCommand,
		Commands:             g.all(commands(g.stores)),
	}
}

// silent returns globals of another app without output, for its flags.
func (g *globals) silent() *globals {
	return &globals{stores: g.stores, stdout: io.Discard, stderr: io.Discard}
}

// commands returns all commands of a program with the given stores, in the order of the help.
func commands(list stores.List) []command {
	return []command{
		generateCommand(),
		importCommand(),
		presampleCommand(),
		mergeCommand(),
		sliceCommand(),
		packCommand(),
		trainCommand(list),
		feedCommand(list),
		evalCommand(list),
		predictCommand(),
		exportCommand(),
		reportCommand(),
		runCommand(),
		inspectCommand(),
		verifyCommand(),
		nvmeCommand(),
		benchCommand(list),
		simulateCommand(),
		doctorCommand(),
		completionCommand(),
		manCommand(),
		versionCommand(),
	}
}

// noCommand answers a command line without a known command.
func noCommand(c *cli.Context) error {
	name := c.Args().First()
	if name == "" {
		// The help goes to stderr: no command was named.
		c.App.Writer = c.App.ErrWriter
		if err := cli.ShowAppHelp(c); err != nil {
			return err
		}
		return fault.New(fault.ErrUsage, "name a command")
	}
	var names []string
	for _, cmd := range c.App.VisibleCommands() {
		names = append(names, cmd.Name)
	}
	return fault.New(fault.ErrUsage, "unknown command %q%s; see diskgnn --help", name, didYouMean(name, names, ""))
}

// session is the environment of a command's action, without the options of the command.
type session struct {
	g     *globals
	args  []string // the positional arguments
	rep   progress.Reporter
	given []string // names of the flags that were set, including those of the configuration file
	out   string   // --out as given, before symbolic links are resolved
	disk  vfs.FS   // file system for the output of a stage

	making *making
}

// command describes a command: its help, flags and actions.
type command struct {
	name     string
	usage    string   // one line
	form     string   // usage line; "": name, flags and operands
	teaches  string   // description: purpose, examples, the next command
	operands []string // names of positional arguments; one in brackets is optional; dots after the last one allow any number
	flags    flags
	groups   []group // more flags, by subject
	ofOthers bool    // keys of the configuration file are flags of other commands, which check them
	resumes  string  // advice after an interruption; empty: an interrupted command keeps nothing
	// check completes the options and returns an error for invalid ones. It reads no file except a
	// secret. agrees returns the error with which run would refuse an existing output, and changes
	// nothing. Commands that cannot be part of a pipeline may do both in run.
	check  func(*session) error
	agrees func(context.Context) error
	run    runs
	// plan replaces run if planning is set. It keeps nothing.
	planning *bool
	plan     runs

	// subs are subcommands; their names begin with the name of the command. The command itself only
	// reports an unknown or missing subcommand.
	subs             []command
	unknown, missing string
}

// runs is the action of a command.
type runs func(context.Context, *session) (outcome, error)

// shows returns a runs that calls run and describes its result.
func shows[R any](run func(context.Context, *session) (R, error), describe func(R) outcome) runs {
	return func(ctx context.Context, s *session) (outcome, error) {
		r, err := run(ctx, s)
		if err != nil {
			return outcome{}, err
		}
		return describe(r), nil
	}
}

// ready checks the operands and the options of a command.
func (cmd *command) ready(s *session) error {
	if err := checkOperands(s.args, cmd.operands); err != nil || cmd.check == nil {
		return err
	}
	return cmd.check(s)
}

// looks checks a command's flags, arguments and existing output, without running it.
func (cmd *command) looks(ctx context.Context, s *session) error {
	if err := cmd.ready(s); err != nil || cmd.agrees == nil {
		return err
	}
	return cmd.agrees(ctx)
}

// flags returns the flags of all commands.
func (g *globals) flags() flags {
	return flags{
		stringFlag("config", "FILE", "YAML file with values for flags; the command line takes precedence", &g.config),
		&cli.BoolFlag{Name: "json", Usage: "print one JSON object as the last line of stdout", Destination: &g.json, DisableDefaultText: true},
		&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "no progress and no notes on stderr; --progress json still writes its lines", Destination: &g.quiet, DisableDefaultText: true},
		flag("progress", "KIND", "form of the progress on stderr: auto, json (one object per line), none", "auto", oneOf(&g.progress, progressKinds)),
	}
}

// all completes commands.
func (g *globals) all(list []command) []*cli.Command {
	made := make([]*cli.Command, len(list))
	for i, cmd := range list {
		if cmd.subs != nil {
			made[i] = g.family(cmd)
		} else {
			made[i] = g.add(cmd)
		}
	}
	return made
}

// family completes a command that has subcommands.
func (g *globals) family(cmd command) *cli.Command {
	c := &cli.Command{Name: cmd.name, Usage: cmd.usage, UsageText: cmd.form, HideHelpCommand: true, Subcommands: g.all(cmd.subs)}
	var forms []string
	for _, sub := range c.Subcommands {
		forms = append(forms, sub.UsageText)
		sub.Name = strings.TrimPrefix(sub.Name, cmd.name+" ")
	}
	c.UsageText = cmp.Or(cmd.form, strings.Join(forms, "\n"))
	c.OnUsageError = func(ctx *cli.Context, err error, _ bool) error {
		g.command = cmd.name
		return usageError(err, ctx.Command.Flags, "diskgnn "+cmd.name)
	}
	c.Action = func(ctx *cli.Context) error {
		g.command = cmd.name
		if what := ctx.Args().First(); what != "" {
			return fault.New(fault.ErrUsage, cmd.unknown, what)
		}
		return fault.New(fault.ErrUsage, "%s", cmd.missing)
	}
	return c
}

// add completes a command: the shared flags, the configuration file, the check of its arguments,
// progress, and the output.
func (g *globals) add(cmd command) *cli.Command {
	cmd.groups = slices.Concat([]group{{"", cmd.flags}}, cmd.groups, []group{{"Configuration and output", g.flags()}})
	var all flags
	for _, g := range cmd.groups {
		all = append(all, g.flags...)
	}
	var file *configuration
	var fromEnvironment []string
	return &cli.Command{
		Name:            cmd.name,
		Usage:           cmd.usage,
		UsageText:       usageOf(&cmd),
		Description:     cmd.teaches,
		HideHelpCommand: true,
		Flags:           all,

		CustomHelpTemplate: g.helpOf(&cmd),

		OnUsageError: func(c *cli.Context, err error, _ bool) error {
			g.command = cmd.name
			return usageError(err, all, "diskgnn "+cmd.name)
		},
		Before: func(c *cli.Context) (err error) {
			if g.starts(cmd.name, cmd.resumes); cmd.ofOthers {
				return nil
			}
			if file, err = applyConfig(c, cmd.name, g.config, all, g.stores); err == nil {
				fromEnvironment, err = applyEnvironment(c, cmd.name, all)
			}
			return err
		},
		Action: func(c *cli.Context) error {
			s := &session{g: g, args: c.Args().Slice(), rep: progress.Discard, given: given(c, fromEnvironment), out: strings.TrimSpace(c.String("out")), disk: g.disk, making: new(making)}
			if s.disk == nil {
				s.disk = vfs.OS
			}
			if c.Bool(skipSpace) {
				s.disk = vfs.Boundless(s.disk)
			}
			if g.look {
				return cmd.looks(c.Context, s)
			}
			rep := g.reporter()
			defer rep.Close()
			to, err := vfs.Destination(s.out)
			if err != nil {
				return err
			}
			g.making.set(to)
			s.rep, s.making = rep, g.making
			noteMemory(c.String("memory"), rep)
			if err := cmd.ready(s); err != nil {
				return err
			}
			do := cmd.run
			if cmd.planning != nil && *cmd.planning {
				g.starts(cmd.name, "")
				do = cmd.plan
			}
			o, err := do(c.Context, s)
			rep.Close()
			if err != nil {
				return err
			}
			progress.Record(rep, "result", o.object)
			if g.collect != nil {
				g.collect(o)
				return nil
			}
			o.next = file.repeated(o.next)
			return o.print(g.stdout, g.json)
		},
	}
}

func checkOperands(args, operands []string) error {
	many := len(operands) > 0 && strings.HasSuffix(strings.TrimSuffix(operands[len(operands)-1], "]"), "...")
	if len(args) > len(operands) && !many {
		return fault.New(fault.ErrUsage, "unexpected argument %q: flags need two dashes, and values with spaces need quotes", args[len(operands)])
	}
	if len(args) < len(operands) && !strings.HasPrefix(operands[len(args)], "[") {
		return fault.New(fault.ErrUsage, "%s is missing", operands[len(args)])
	}
	return nil
}

// settings is a stage's options struct.
type settings interface {
	EnsureDefaults()
	Validate() error
}

// settle completes a stage's options and checks them. Without a given memory budget it takes a
// share of the machine's memory, and reports it.
func (s *session) settle(o settings, memory *int64) error {
	given := *memory != 0
	var of string
	if !given {
		*memory, of = budget.Default()
	}
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return err
	}
	if !given {
		s.rep.Logf("memory: up to %s, %.0f%% of %s (--memory sets it)", budget.FormatBytes(*memory), 100*budget.DefaultShare, of)
	}
	return nil
}

// noteMemory reports a given --memory that exceeds the machine's.
func noteMemory(given string, rep progress.Reporter) {
	memory, err := parseBytes(given)
	if err != nil {
		return // without --memory; its flag refuses invalid values
	}
	if of := budget.Beyond(memory); of != "" {
		rep.Logf("memory: --memory allows %s, which is more than %s: the kernel may end the process first", budget.FormatBytes(memory), of)
	}
}

// required returns an error if a flag is missing.
func required(flag, value string) error {
	if value == "" {
		return fault.New(fault.ErrUsage, "--%s is missing", flag)
	}
	return nil
}
