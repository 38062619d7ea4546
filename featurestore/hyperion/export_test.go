package hyperion

// For tests that open stores, and so cannot be in the package.
type (
	Demand = demand
	Room   = room
)

var Divide = divide
