package deps

import (
	"sync"
	"testing"
)

const root = "../.."

var sources = sync.OnceValues(func() ([]*Source, error) { return Read(root) })

func load(t *testing.T) []*Source {
	t.Helper()
	all, err := sources()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 10 {
		t.Fatalf("found %d Go files: is %q the repository?", len(all), root)
	}
	return all
}
