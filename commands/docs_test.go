package commands

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"diskgnn/dataset"
	"diskgnn/dataset/export"
	"diskgnn/dataset/importer"
	formats "diskgnn/dataset/importer/all"
	"diskgnn/doctor"
	"diskgnn/internal/shard"
	backends "diskgnn/iostack/all"
	"diskgnn/pack"
	"diskgnn/pack/cut"
	"diskgnn/pack/slice"
	"diskgnn/presample"
	"diskgnn/simulate/drives"
	"diskgnn/train"
	"diskgnn/train/comparison"
	"diskgnn/train/cpu/blas"
	"diskgnn/train/exact"
	"diskgnn/train/recipe"
	"diskgnn/train/rundir"
	"diskgnn/train/score"
	"diskgnn/train/trained"
)

// results lists what each command prints with --json.
var results = map[string]any{
	"generate":        dataset.Result{},
	"import":          dataset.Result{},
	"export":          export.Result{},
	"presample":       presample.Result{},
	"merge":           shard.Result{},
	"pack":            pack.Result{},
	"slice":           slice.Result{},
	"train":           rundir.Result{},
	"eval":            trained.Evaluation{},
	"predict":         exact.Prediction{},
	"report":          reported{},
	"run":             pipelineRun{},
	"inspect":         inspected{},
	"verify":          verified{},
	"nvme load":       loaded{},
	"nvme list":       onVolume{},
	"bench io":        ioRates{},
	"bench stores":    comparison.Result{},
	"bench nvme":      nvmeRates{},
	"simulate drives": simulated{},
	"simulate beacon": beaconed{},
	"doctor":          doctor.Report{},
	"completion":      completion{},
	"feed":            struct{}{},
	"man":             manual{},
	"version":         version{},
}

var quoted = regexp.MustCompile("`([^`]+)`")

// reference is what a page of docs/cli says of one command.
type reference struct {
	flags      map[string]string // default by name
	keys       []string
	epoch      []string
	layer      []string
	store      []string
	plan       []string
	comparison []string
	choice     []string
	found      []string
}

// cliPage returns the path of a command's page, seen from this package; of "", the index.
func cliPage(command string) string {
	if command == "" {
		return root + "/docs/cli.md"
	}
	return root + "/docs/cli/" + strings.ReplaceAll(command, " ", "-") + ".md"
}

// cliPages returns the text of docs/cli.md and of all pages in docs/cli, by path.
func cliPages(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob(cliPage("*"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no pages of commands: %v", err)
	}
	pages := map[string]string{}
	for _, name := range append(names, cliPage("")) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		pages[name] = string(text)
	}
	return pages
}

// cliReference reads the tables of every command's page. The index, with the flags of all commands, is under "".
func cliReference(t *testing.T) map[string]*reference {
	t.Helper()
	all := map[string]*reference{}
	for name, text := range cliPages(t) {
		title, _, _ := strings.Cut(text, "\n")
		command, ok := strings.CutPrefix(title, "# diskgnn ")
		if !ok {
			command = ""
		}
		if cliPage(command) != name {
			t.Errorf("%s has the title %q", name, title)
		}
		all[command] = parseReference(text)
	}
	return all
}

// parseReference reads the tables of a page, which the heading of their first column tells apart.
func parseReference(text string) *reference {
	r := &reference{flags: map[string]string{}}
	table := ""
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.TrimSuffix(line, "\n"), "|")
		if len(cells) < 4 {
			table = ""
			continue
		}
		first := strings.TrimSpace(cells[1])
		if table == "" {
			table = first
			continue
		}
		for _, name := range quoted.FindAllStringSubmatch(first, -1) {
			switch table {
			case "flag":
				r.flags[strings.TrimPrefix(name[1], "--")] = strings.TrimSpace(cells[2])
			case "JSON key":
				r.keys = append(r.keys, name[1])
			case "comparison key":
				r.comparison = append(r.comparison, name[1])
			case "plan key":
				r.plan = append(r.plan, name[1])
			case "choice key":
				r.choice = append(r.choice, name[1])
			case "store key":
				r.store = append(r.store, name[1])
			case "layer key":
				r.layer = append(r.layer, name[1])
			case "finding key":
				r.found = append(r.found, name[1])
			case "epoch key":
				r.epoch = append(r.epoch, name[1])
			}
		}
	}
	return r
}

// jsonKeys returns the keys of a struct, embedded ones included.
func jsonKeys(t reflect.Type) []string {
	var keys []string
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous:
			of := f.Type
			if of.Kind() == reflect.Pointer {
				of = of.Elem()
			}
			keys = append(keys, jsonKeys(of)...)
		case name != "" && name != "-":
			keys = append(keys, name)
		}
	}
	return keys
}

// What run.json calls an option of the recipe is what train's flag is called.
func TestRecipeIsFlags(t *testing.T) {
	var names []string
	for _, f := range quiet().add(trainCommand(builtin)).Flags {
		names = append(names, f.Names()...)
	}
	for _, flag := range recipe.Flags() {
		if !slices.Contains(names, flag) {
			t.Errorf("train has no --%s", flag)
		}
	}
}

func TestReferenceIsComplete(t *testing.T) {
	docs := cliReference(t)
	commands := commandFlags(newApp(quiet()))
	index := cliPages(t)[cliPage("")]
	for command := range docs {
		if command == "" {
			continue
		}
		if commands[command] == nil {
			t.Errorf("%s: there is no such command", cliPage(command))
		}
		if page := "cli/" + filepath.Base(cliPage(command)); !strings.Contains(index, "["+command+"]("+page+")") {
			t.Errorf("docs/cli.md has no link to %s", page)
		}
	}
	for command, flags := range commands {
		r := docs[command]
		if r == nil {
			t.Errorf("%s has no page %s", command, cliPage(command))
			continue
		}
		var names []string
		for _, f := range flags {
			name := f.Names()[0]
			names = append(names, name)
			text, ok := r.flags[name]
			if !ok {
				text, ok = docs[""].flags[name]
			}
			if !ok {
				t.Errorf("%s: --%s is missing", cliPage(command), name)
				continue
			}
			if d, ok := f.(cli.DocGenerationFlag); ok && d.TakesValue() && d.GetDefaultText() != text {
				t.Errorf("%s: the default of --%s is %q, the program's %q", cliPage(command), name, text, d.GetDefaultText())
			}
		}
		for name := range r.flags {
			if !slices.Contains(names, name) {
				t.Errorf("%s: there is no --%s", cliPage(command), name)
			}
		}
		compareKeys(t, command, r.keys, jsonKeys(reflect.TypeOf(results[command])))
	}
	compareKeys(t, "report's comparison", docs["report"].comparison, jsonKeys(reflect.TypeFor[comparedRuns]()))
	compareKeys(t, "import's plan", docs["import"].plan, jsonKeys(reflect.TypeFor[importer.Plan]()))
	compareKeys(t, "presample's plan", docs["presample"].plan, jsonKeys(reflect.TypeFor[presample.Plan]()))
	compareKeys(t, "train's plan", docs["train"].plan, jsonKeys(reflect.TypeFor[train.Plan]()))
	compareKeys(t, "eval's plan", docs["eval"].plan, jsonKeys(reflect.TypeFor[exact.Plan]()))
	compareKeys(t, "pack's plan", docs["pack"].plan, jsonKeys(reflect.TypeFor[cut.Plan]()))
	compareKeys(t, "a plan's choices", docs["pack"].choice, jsonKeys(reflect.TypeFor[cut.Choice]()))
	compareKeys(t, "eval's layers", docs["eval"].layer, jsonKeys(reflect.TypeFor[score.LayerCost]()))
	compareKeys(t, "the stores of bench stores", docs["bench stores"].store, jsonKeys(reflect.TypeFor[comparison.Store]()))
	compareKeys(t, "the findings of doctor", docs["doctor"].found, jsonKeys(reflect.TypeFor[doctor.Finding]()))
	compareKeys(t, "train's epochs", docs["train"].epoch, jsonKeys(reflect.TypeFor[rundir.Epoch]()))
}

// Help texts and the pages of commands name every store, backend, format, BLAS and policy of a store; of stores, a
// simulation has a list of its own. Rows of pages may refer to train's.
func TestHelpNamesEveryChoice(t *testing.T) {
	pages := cliPages(t)
	known := map[string][][]string{"io": {backends.Kinds()}, "store": {builtin.Names(), drives.Stores()}, "format": {formats.Names(), export.Formats()}, "blas": {blas.Kinds()}}
	var policies []string
	for _, store := range builtin.Names() {
		policies = append(policies, builtin.Design(store).Policies...)
	}
	known["cache-policy"] = [][]string{policies}
	seen := map[string]bool{}
	missing := func(lists [][]string, has func(word string) bool) string {
		least := []string(nil)
		for i, words := range lists {
			lacks := slices.DeleteFunc(slices.Clone(words), has)
			if i == 0 || len(lacks) < len(least) {
				least = lacks
			}
		}
		return strings.Join(least, ", ")
	}
	for command, flags := range commandFlags(newApp(quiet())) {
		for _, f := range flags {
			name := f.Names()[0]
			if known[name] == nil {
				continue
			}
			seen[name] = true
			usage := f.(cli.DocGenerationFlag).GetUsage()
			if words := missing(known[name], func(w string) bool { return regexp.MustCompile(`\b` + w + `\b`).MatchString(usage) }); words != "" {
				t.Errorf("the help of %s --%s does not name %s: %s", command, name, words, usage)
			}
		}
	}
	for name, lists := range known {
		if !seen[name] {
			t.Errorf("no command has --%s", name)
		}
		for page, text := range pages {
			for row := range strings.Lines(text) {
				if !strings.HasPrefix(row, "| `--"+name+"` |") || strings.Contains(row, "as of `train`") {
					continue
				}
				if words := missing(lists, func(w string) bool { return strings.Contains(row, "`"+w+"`") }); words != "" {
					t.Errorf("%s does not name %s: %s", page, words, row)
				}
			}
		}
	}
}

func compareKeys(t *testing.T, of string, documented, printed []string) {
	t.Helper()
	for _, k := range printed {
		if !slices.Contains(documented, k) {
			t.Errorf("docs/cli, %s: the key %s is missing", of, k)
		}
	}
	for _, k := range documented {
		if !slices.Contains(printed, k) {
			t.Errorf("docs/cli, %s: nothing prints the key %s", of, k)
		}
	}
}
