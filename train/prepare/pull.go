package prepare

// Lists names the lists of sources that each destination of a node type has, in a typed graph: one for each of some of
// the relations into the type. It is nil in other graphs: a destination has one list.
type Lists struct {
	Kind      int   // the type
	Relations []int // ascending
}

// PullShape describes the rows of a Pull, in elements.
type PullShape struct {
	In  int // of an input row
	Row int // of a row that destinations add
	Acc int // of an accumulator: a destination has one; in a typed graph, one for each of its lists
	Out int // of an output row
	// Wide is the number of elements at the front of an accumulator that are sums. For a long list the
	// caller adds them, block by block, to float64s. 0: there are none.
	Wide  int
	Maps  bool // Map makes the rows that destinations add; else these are the input rows
	First bool // Begin reads the input rows of the destinations
	Last  bool // Finish does
	Loops bool // edges from a node to itself are left out: Begin adds one
	// Group is the number of rows of each product. Map, Begin and Finish take this number of rows or
	// fewer; the rows that a group lacks, which must be memory, are computed too and ignored, so that
	// a library sees one shape.
	Group int
}
