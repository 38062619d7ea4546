package uring

// The used part of the kernel's interface, include/uapi/linux/io_uring.h.

const (
	opRead      = 22 // IORING_OP_READ, Linux 5.6
	opReadFixed = 4  // IORING_OP_READ_FIXED

	sqeFixedFile = 1 << 0 // IOSQE_FIXED_FILE
	sqeAsync     = 1 << 4 // IOSQE_ASYNC

	setupCoopTaskrun  = 1 << 8  // IORING_SETUP_COOP_TASKRUN, Linux 5.19
	setupSingleIssuer = 1 << 12 // IORING_SETUP_SINGLE_ISSUER, Linux 6.0
	setupDeferTaskrun = 1 << 13 // IORING_SETUP_DEFER_TASKRUN, Linux 6.1

	featSingleMmap = 1 << 0 // IORING_FEAT_SINGLE_MMAP
	featNoDrop     = 1 << 1 // IORING_FEAT_NODROP: completions are never lost

	enterGetEvents = 1 << 0 // IORING_ENTER_GETEVENTS

	offRings = 0          // IORING_OFF_SQ_RING
	offSQEs  = 0x10000000 // IORING_OFF_SQES

	registerFiles         = 2  // IORING_REGISTER_FILES
	unregisterFiles       = 3  // IORING_UNREGISTER_FILES
	registerFilesUpdate   = 6  // IORING_REGISTER_FILES_UPDATE
	unregisterBuffers     = 1  // IORING_UNREGISTER_BUFFERS
	registerBuffers2      = 15 // IORING_REGISTER_BUFFERS2, Linux 5.13
	registerBuffersUpdate = 16 // IORING_REGISTER_BUFFERS_UPDATE
	registerSparse        = 1  // IORING_RSRC_REGISTER_SPARSE, Linux 5.19
)

// sqe is struct io_uring_sqe: one operation to submit.
type sqe struct {
	opcode   uint8
	flags    uint8
	ioprio   uint16
	fd       int32 // a descriptor, or with sqeFixedFile a slot
	offset   uint64
	addr     uint64
	length   uint32
	opFlags  uint32
	userData uint64
	bufIndex uint16
	_        [22]byte
}

// cqe is struct io_uring_cqe: one operation's result.
type cqe struct {
	userData uint64
	res      int32 // bytes, or a negative errno
	flags    uint32
}

// params is struct io_uring_params.
type params struct {
	sqEntries, cqEntries uint32
	flags                uint32
	_                    [2]uint32
	features             uint32
	_                    [4]uint32
	sq                   struct {
		head, tail, mask, entries, flags, dropped, array uint32
		_                                                [3]uint32
	}
	cq struct {
		head, tail, mask, entries, overflow, cqes uint32
		_                                         [4]uint32
	}
}

// filesUpdate is struct io_uring_files_update.
type filesUpdate struct {
	offset uint32
	_      uint32
	fds    uint64 // address of int32s
}

// rsrcRegister is struct io_uring_rsrc_register.
type rsrcRegister struct {
	nr, flags uint32
	_         uint64
	data      uint64
	tags      uint64
}

// rsrcUpdate is struct io_uring_rsrc_update2.
type rsrcUpdate struct {
	offset uint32
	_      uint32
	data   uint64 // address of iovecs
	tags   uint64
	nr     uint32
	_      uint32
}
