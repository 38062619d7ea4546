package device

import "testing"

// Populate changes no byte, of memory that was used and of memory that was not.
func TestPopulateChangesNothing(t *testing.T) {
	h, err := NewHost(3 * PageSize)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Free()
	h.Bytes()[PageSize] = 7
	Populate(nil)
	Populate(h.Bytes())
	for i, b := range h.Bytes() {
		want := byte(0)
		if i == PageSize {
			want = 7
		}
		if b != want {
			t.Fatalf("byte %d is %d, want %d", i, b, want)
		}
	}
}
