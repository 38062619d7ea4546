package pickle

import "slices"

// Opcodes of protocols 2 to 4, as far as they are read.
const (
	opMark            = '('
	opStop            = '.'
	opPop             = '0'
	opPopMark         = '1'
	opDup             = '2'
	opBinFloat        = 'G'
	opBinInt          = 'J'
	opBinInt1         = 'K'
	opBinInt2         = 'M'
	opNone            = 'N'
	opBinPersistent   = 'Q'
	opReduce          = 'R'
	opBinString       = 'T'
	opShortBinString  = 'U'
	opBinUnicode      = 'X'
	opAppend          = 'a'
	opBuild           = 'b'
	opGlobal          = 'c'
	opAppends         = 'e'
	opBinGet          = 'h'
	opLongBinGet      = 'j'
	opBinPut          = 'q'
	opLongBinPut      = 'r'
	opSetItem         = 's'
	opTuple           = 't'
	opSetItems        = 'u'
	opEmptyDict       = '}'
	opEmptyList       = ']'
	opEmptyTuple      = ')'
	opProto           = 0x80
	opNewObj          = 0x81
	opTuple1          = 0x85
	opTuple2          = 0x86
	opTuple3          = 0x87
	opNewTrue         = 0x88
	opNewFalse        = 0x89
	opLong1           = 0x8a
	opBinBytes        = 'B'
	opShortBinBytes   = 'C'
	opShortBinUnicode = 0x8c
	opBinUnicode8     = 0x8d
	opBinBytes8       = 0x8e
	opEmptySet        = 0x8f
	opAddItems        = 0x90
	opFrozenSet       = 0x91
	opStackGlobal     = 0x93
	opMemoize         = 0x94
	opFrame           = 0x95
)

// Protocols that are read.
const leastProtocol, mostProtocol = 2, 4

// run executes the pickle up to its end.
func (m *machine) run() (any, error) {
	if op, err := m.take(1); err != nil || op[0] != opProto {
		return nil, bad("it is not a pickle of protocol %d to %d", leastProtocol, mostProtocol)
	}
	version, err := m.number(1)
	if err != nil {
		return nil, err
	}
	if version < leastProtocol || version > mostProtocol {
		return nil, bad("it has protocol %d; the program reads protocols %d to %d", version, leastProtocol, mostProtocol)
	}
	for {
		m.op = m.at
		op, err := m.take(1)
		if err != nil {
			return nil, err
		}
		if op[0] == opStop {
			v, err := m.pop(1)
			if err != nil || len(m.stack) != 0 || len(m.marks) != 0 {
				return nil, bad("it does not end with exactly one value")
			}
			return v[0], nil
		}
		if err := m.step(op[0]); err != nil {
			return nil, err
		}
	}
}

func (m *machine) step(op byte) error {
	switch op {
	case opFrame: // the bytes of the next opcodes, which follow here anyway
		_, err := m.take(8)
		return err
	case opMark:
		// A mark counts as a value, so that the limit of values also limits marks.
		if m.pushed++; m.pushed > m.limits.Values {
			return bad("it has more than %d values", m.limits.Values)
		}
		m.marks = append(m.marks, len(m.stack))
		return nil
	case opPop:
		if len(m.marks) > 0 && len(m.stack) == m.floor() {
			m.marks = m.marks[:len(m.marks)-1]
			return nil
		}
		_, err := m.pop(1)
		return err
	case opPopMark:
		_, err := m.popMark()
		return err
	case opDup:
		v, err := m.top()
		if err != nil {
			return err
		}
		return m.push(v)
	case opNone:
		return m.push(nil)
	case opNewTrue, opNewFalse:
		return m.push(op == opNewTrue)
	case opBinInt, opBinInt1, opBinInt2, opLong1, opBinFloat:
		return m.numeral(op)
	case opBinUnicode, opShortBinUnicode, opBinUnicode8, opBinBytes, opShortBinBytes, opBinBytes8, opBinString, opShortBinString:
		return m.text8(op)
	case opEmptyTuple, opTuple, opTuple1, opTuple2, opTuple3:
		return m.tuple(op)
	case opEmptyList:
		return m.push(&List{})
	case opEmptyDict:
		return m.push(&Dict{})
	case opEmptySet:
		return m.push(&Object{Class: Global{"builtins", "set"}})
	case opFrozenSet:
		items, err := m.popMark()
		if err != nil {
			return err
		}
		return m.push(&Object{Class: Global{"builtins", "frozenset"}, List: slices.Clone(items)})
	case opAppend, opAppends, opSetItem, opSetItems, opAddItems:
		return m.into(op)
	case opBinPut, opLongBinPut, opBinGet, opLongBinGet, opMemoize:
		return m.memory(op)
	default:
		return m.make(op)
	}
}

func (m *machine) numeral(op byte) error {
	if op == opBinFloat {
		v, err := m.float()
		if err != nil {
			return err
		}
		return m.push(v)
	}
	if op == opLong1 {
		s, err := m.sized(1)
		if err != nil {
			return err
		}
		v, err := long(s)
		if err != nil {
			return err
		}
		return m.push(v)
	}
	size := uint64(1)
	switch op {
	case opBinInt:
		size = 4
	case opBinInt2:
		size = 2
	}
	n, err := m.number(size)
	if err != nil {
		return err
	}
	if op == opBinInt { // the only one with a sign
		return m.push(int64(int32(n)))
	}
	return m.push(int64(n))
}

// text8 pushes a string or bytes. Those that Python 2 called strings are strings.
func (m *machine) text8(op byte) error {
	size := uint64(1)
	switch op {
	case opBinUnicode, opBinBytes, opBinString:
		size = 4
	case opBinUnicode8, opBinBytes8:
		size = 8
	}
	s, err := m.sized(size)
	if err != nil {
		return err
	}
	if op == opBinBytes || op == opShortBinBytes || op == opBinBytes8 {
		return m.push(Bytes(s))
	}
	return m.push(s)
}

func (m *machine) tuple(op byte) (err error) {
	var items []any
	switch op {
	case opTuple:
		items, err = m.popMark()
	case opTuple1, opTuple2, opTuple3:
		items, err = m.pop(int(op - opTuple1 + 1))
	}
	if err != nil {
		return err
	}
	return m.push(&Tuple{append([]any(nil), items...)})
}

// into puts values into the one below them.
func (m *machine) into(op byte) (err error) {
	var items []any
	switch op {
	case opAppend:
		items, err = m.pop(1)
	case opSetItem:
		items, err = m.pop(2)
	default:
		items, err = m.popMark()
	}
	if err != nil {
		return err
	}
	v, err := m.top()
	if err != nil {
		return err
	}
	if op == opAppend || op == opAppends || op == opAddItems {
		return extend(v, items)
	}
	return fill(v, items)
}

func (m *machine) memory(op byte) error {
	if op == opMemoize {
		return m.put(uint64(len(m.memo)))
	}
	size := uint64(1)
	if op == opLongBinPut || op == opLongBinGet {
		size = 4
	}
	i, err := m.number(size)
	if err != nil {
		return err
	}
	if op == opBinPut || op == opLongBinPut {
		return m.put(i)
	}
	return m.get(i)
}

// make handles names, and the objects made with them.
func (m *machine) make(op byte) error {
	switch op {
	case opGlobal:
		module, err := m.line()
		if err != nil {
			return err
		}
		name, err := m.line()
		if err != nil {
			return err
		}
		return m.name(module, name)
	case opStackGlobal:
		v, err := m.pop(2)
		if err != nil {
			return err
		}
		module, ok := v[0].(string)
		name, ok2 := v[1].(string)
		if !ok || !ok2 {
			return bad("it refers to a class by a name that is not a string")
		}
		return m.name(module, name)
	case opReduce, opNewObj:
		v, err := m.pop(2)
		if err != nil {
			return err
		}
		return m.object(v[0], v[1])
	case opBuild:
		v, err := m.pop(1)
		if err != nil {
			return err
		}
		state := v[0]
		top, err := m.top()
		if err != nil {
			return err
		}
		o, ok := top.(*Object)
		if !ok {
			return bad("it gives a state to a value that is not an object")
		}
		o.State = state
		return nil
	case opBinPersistent:
		v, err := m.pop(1)
		if err != nil {
			return err
		}
		return m.push(&Persistent{v[0]})
	}
	return bad("it has the opcode %s, which is not supported", opName(op))
}
