package commands

import (
	"errors"
	stdflag "flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/goccy/go-yaml/ast"
	"github.com/urfave/cli/v2"

	"diskgnn/featurestore/stores"
	"diskgnn/internal/fault"
	"diskgnn/internal/units"
	"diskgnn/internal/vfs"
	"diskgnn/internal/yaml"
)

// setting is one value of a configuration file.
type setting struct {
	key, value string
	line       int
}

// configuration is the content of a configuration file.
type configuration struct {
	file     string
	general  []setting
	sections map[string][]setting
	flags    map[string][]cli.Flag // of every command
	stores   stores.List           // of the program
}

// openConfiguration reads a file with flags of the commands of an app, which has the given stores. The commands
// check its keys.
func openConfiguration(app *cli.App, file string, list stores.List) (*configuration, error) {
	text, err := readConfig(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fault.New(err, "--config: there is no file %s", file)
	case errors.Is(err, syscall.EISDIR):
		return nil, fault.New(err, "--config: %s is a directory: name a YAML file", file)
	case err != nil:
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	c := &configuration{file: file, flags: commandFlags(app), stores: list}
	c.general, c.sections, err = parseConfig(text, file, slices.Collect(maps.Keys(c.flags)))
	return c, err
}

// of returns a command's settings. The settings of its section come first, and take precedence. given
// reports whether the command line has a flag. A pack excludes a dataset and samples: if the command
// line has one side, the settings of the other side are dropped; otherwise a pack drops a dataset and
// samples outside the section.
func (c *configuration) of(command string, given func(flag string) bool) []setting {
	own := flagNames(c.flags[command])
	others := func(s setting) bool { return !slices.Contains(own, s.key) }
	section, general := slices.DeleteFunc(slices.Clone(c.sections[command]), others), slices.DeleteFunc(slices.Clone(c.general), others)
	isPack := func(s setting) bool { return s.key == "pack" }
	isSource := func(s setting) bool { return s.key == "dataset" || s.key == "samples" }
	switch {
	case given("pack"):
		section, general = slices.DeleteFunc(section, isSource), slices.DeleteFunc(general, isSource)
	case given("dataset"), given("samples"):
		section, general = slices.DeleteFunc(section, isPack), slices.DeleteFunc(general, isPack)
	case slices.ContainsFunc(section, isPack), slices.ContainsFunc(general, isPack):
		general = slices.DeleteFunc(general, isSource)
	}
	return append(section, general...)
}

// nothingGiven is a command line without flags.
func nothingGiven(string) bool { return false }

// proposed matches a flag of a proposed command, with its value as units.ShellWord writes it.
var proposed = regexp.MustCompile(` --([a-z-]+) ('(?:[^']|'\\'')*'|\S+)`)

// Placeholders in a proposed command for unknown directories.
const (
	someRun     = "RUN"
	someDataset = "DATASET"
)

// repeated shortens a proposed command, if the configuration has settings for it: it adds --config, and
// omits the flags with equal settings, and proposed names and placeholders for which the file has values.
// A nil c is no configuration.
func (c *configuration) repeated(next string) string {
	words := strings.Fields(next)
	if c == nil || len(words) < 2 {
		return next
	}
	command := words[1]
	if len(words) > 2 && c.flags[command] == nil {
		command += " " + words[2]
	}
	settings := c.of(command, func(flag string) bool { return strings.Contains(next, " --"+flag+" ") })
	if len(settings) == 0 {
		return next
	}
	next = proposed.ReplaceAllStringFunc(next, func(flag string) string {
		m := proposed.FindStringSubmatch(flag)
		for _, s := range settings {
			named := m[1] == "out" && slices.Contains(c.sections[command], s) || m[2] == someRun || m[2] == someDataset
			if s.key == m[1] && (named || units.ShellWord(s.value) == m[2]) {
				return ""
			}
			if s.key == m[1] {
				break // the first counts
			}
		}
		return flag
	})
	return next + " --config " + units.ShellWord(c.file)
}

// applyConfig sets flags that are not on the command line to the values of a configuration file. A key is
// the name of a flag, or the name of a command, with a section for its flags. So one file can configure a
// whole pipeline. A key outside the sections may be a flag of any of their commands, and applies to the
// commands that have it. applyConfig returns the content of the file, nil without a file.
func applyConfig(c *cli.Context, command, file string, flags []cli.Flag, list stores.List) (*configuration, error) {
	if file == "" {
		return nil, nil
	}
	read, err := openConfiguration(c.App, file, list)
	if err != nil {
		return nil, err
	}
	if err := read.check(flags); err != nil {
		return nil, err
	}
	for _, s := range read.of(command, c.IsSet) {
		if c.IsSet(s.key) {
			continue
		}
		if err := c.Set(s.key, s.value); err != nil {
			return nil, s.wrong(file, err)
		}
	}
	return read, nil
}

// check returns an error for keys that are neither in flags nor flags of the sections' commands, and for
// values that the flags of the sections' commands refuse.
func (c *configuration) check(flags []cli.Flag) error {
	known := slices.Clone(flags)
	names := slices.Sorted(maps.Keys(c.sections))
	for _, name := range names {
		if err := knownKeys(c.sections[name], c.file, c.flags[name]); err != nil {
			return err
		}
		known = append(known, c.flags[name]...)
	}
	if err := knownKeys(c.general, c.file, known); err != nil {
		return err
	}
	// The values are parsed with the flags of another app, so that the running command is not changed.
	parsing := commandFlags(newApp((&globals{stores: c.stores}).silent()))
	for _, name := range names {
		if flags := parsing[name]; flags != nil {
			if err := c.parses(name, flags); err != nil {
				return err
			}
		}
	}
	return nil
}

// wrong adds the position of a setting to its flag's error.
func (s *setting) wrong(file string, err error) error {
	return fault.New(fault.ErrUsage, "%s:%d: %s: %s", file, s.line, s.key, strings.Replace(err.Error(), "parse error", "want true or false", 1))
}

// parses returns an error for a value among a command's settings that its flag refuses.
func (c *configuration) parses(command string, flags []cli.Flag) error {
	set := stdflag.NewFlagSet(command, stdflag.ContinueOnError)
	for _, f := range flags {
		if err := f.Apply(set); err != nil {
			return err
		}
	}
	for _, s := range c.of(command, nothingGiven) {
		if err := set.Set(s.key, s.value); err != nil {
			return s.wrong(c.file, err)
		}
	}
	return nil
}

// readConfig reads a configuration file or pipe.
func readConfig(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return vfs.Small(f, file, 0, yaml.MaxBytes)
}

// commandFlags returns the flags of every command by its name. The name of a subcommand has two words.
func commandFlags(app *cli.App) map[string][]cli.Flag {
	flags := make(map[string][]cli.Flag)
	for _, c := range app.Commands {
		for _, sub := range c.Subcommands {
			flags[c.Name+" "+sub.Name] = sub.Flags
		}
		if len(c.Subcommands) == 0 {
			flags[c.Name] = c.Flags
		}
	}
	return flags
}

// knownKeys returns an error for keys that are not flags.
func knownKeys(settings []setting, file string, flags []cli.Flag) error {
	names := slices.DeleteFunc(flagNames(flags), func(n string) bool { return n == "config" || n == "help" || len(n) == 1 })
	for _, s := range settings {
		if !slices.Contains(names, s.key) {
			return fault.New(fault.ErrUsage, "%s:%d: unknown key %q%s", file, s.line, s.key, didYouMean(s.key, names, ""))
		}
	}
	return nil
}

// parseConfig reads the general settings and the commands' sections.
func parseConfig(text []byte, file string, commands []string) (general []setting, sections map[string][]setting, err error) {
	tree, err := yaml.Parse(text)
	if err != nil {
		return nil, nil, fault.New(fault.ErrUsage, "%s cannot be read as YAML: %v", file, err)
	}
	if len(tree.Docs) > 1 {
		return nil, nil, fault.New(fault.ErrUsage, "%s has %d YAML documents, but a configuration is a single one", file, len(tree.Docs))
	}
	sections = make(map[string][]setting)
	if len(tree.Docs) == 0 || tree.Docs[0].Body == nil {
		return nil, sections, nil
	}
	entries, err := mapping(tree.Docs[0].Body, file)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		key, line := e.Key.GetToken().Value, e.Key.GetToken().Position.Line
		if !slices.Contains(commands, key) {
			if isSection(e.Value) {
				return nil, nil, fault.New(fault.ErrUsage, "%s:%d: unknown section %q: sections have the names of commands%s", file, line, key, didYouMean(key, commands, ""))
			}
			general, err = appendSetting(general, e, file)
		} else if inner, ierr := mapping(e.Value, file); ierr != nil {
			err = ierr
		} else if _, twice := sections[key]; twice {
			err = fault.New(fault.ErrUsage, "%s:%d: the key %s is given twice", file, line, key)
		} else {
			sections[key] = []setting{}
			for _, i := range inner {
				if sections[key], err = appendSetting(sections[key], i, file); err != nil {
					break
				}
			}
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return general, sections, nil
}

// isSection reports whether a value is a YAML mapping with entries.
func isSection(n ast.Node) bool {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return true
	}
	return false
}

// mapping returns the entries of a YAML mapping.
func mapping(n ast.Node, file string) ([]*ast.MappingValueNode, error) {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values, nil
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, nil
	case *ast.NullNode:
		return nil, nil
	}
	return nil, fault.New(fault.ErrUsage, "%s:%d: want \"flag: value\" lines", file, n.GetToken().Position.Line)
}

func appendSetting(list []setting, e *ast.MappingValueNode, file string) ([]setting, error) {
	s := setting{key: e.Key.GetToken().Value, line: e.Key.GetToken().Position.Line}
	if slices.ContainsFunc(list, func(o setting) bool { return o.key == s.key }) {
		return nil, fault.New(fault.ErrUsage, "%s:%d: the key %s is given twice", file, s.line, s.key)
	}
	var err error
	if s.value, err = scalar(e.Value); err == nil {
		s.value, err = expanded(s.value, os.LookupEnv)
	}
	if err != nil {
		return nil, fault.New(fault.ErrUsage, "%s:%d: %s: %v", file, s.line, s.key, err)
	}
	return append(list, s), nil
}

// scalar returns a value in the form of the command line, with the items of a sequence joined by commas.
func scalar(n ast.Node) (string, error) {
	if seq, ok := n.(*ast.SequenceNode); ok {
		parts := make([]string, len(seq.Values))
		for i, v := range seq.Values {
			var err error
			if parts[i], err = scalar(v); err != nil {
				return "", err
			}
		}
		return strings.Join(parts, ","), nil
	}
	switch n.(type) {
	case *ast.NullNode, *ast.AnchorNode, *ast.AliasNode, *ast.TagNode, *ast.LiteralNode, *ast.MappingNode, *ast.MappingValueNode:
		return "", fault.New(fault.ErrUsage, "want a value, or a list of values")
	}
	if s, ok := n.(ast.ScalarNode); ok {
		return s.GetToken().Value, nil
	}
	return "", fault.New(fault.ErrUsage, "want a value, or a list of values")
}
