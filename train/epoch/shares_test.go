package epoch

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
)

// A share keeps to its bound, whatever a rank has found.
func TestMostShare(t *testing.T) {
	mine := share{Scorer: make([]byte, 3e6+1), State: strings.Repeat("x", 64)}
	for range 50_000 {
		mine.Found = append(mine.Found, Found{Loss: -1.2345678901234567e-308, Seeds: math.MaxInt32})
	}
	b, err := json.Marshal(mine)
	if err != nil {
		t.Fatal(err)
	}
	tr := Trainer{done: 50_007, shared: 7, scorerState: 3e6 + 1}
	if most := tr.mostShare(); int64(len(b)) > most || most > int64(len(b))+2<<20 {
		t.Errorf("%d bytes, at most %d", len(b), most)
	}
	if without := (&Trainer{}).mostShare(); int64(len(b)) < without {
		t.Errorf("%d bytes are few: %d", len(b), without)
	}
	large, err := json.Marshal(share{Scorer: make([]byte, 30e6)})
	if most := (&Trainer{scorerState: 30e6}).mostShare(); err != nil || int64(len(large)) > most {
		t.Errorf("%d bytes, at most %d: %v", len(large), most, err)
	}
}
