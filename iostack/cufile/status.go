package cufile

import (
	"fmt"
	"syscall"

	"diskgnn/internal/fault"
)

// status is the library's error code with its text.
type status struct {
	call  string
	code  int           // CUfileOpError; 0 if the system refused
	cuda  int           // CUDA's result beside it
	errno syscall.Errno // the system's answer, without a code
}

// statusOf returns the error of a call that answered with a status; nil for success.
func statusOf(call string, code, cuda int) error {
	if code == 0 {
		return nil
	}
	return &status{call: call, code: code, cuda: cuda}
}

// readStatus returns the error of a read that answered n < 0: −1 for an error of the system, else a
// code.
func readStatus(n int, errno syscall.Errno) error {
	const call = "cuFileRead"
	if n == -1 {
		return &status{call: call, errno: errno}
	}
	return &status{call: call, code: -n}
}

func (s *status) Error() string {
	switch known, ok := codes[s.code]; {
	case s.code == 0 && s.errno == 0:
		return s.call + ": failed without a reason"
	case s.code == 0:
		return s.call + ": " + s.errno.Error()
	case !ok:
		return fmt.Sprintf("%s: status %d", s.call, s.code) + s.beside()
	case known.why != "":
		return fmt.Sprintf("%s: %s (%d): %s", s.call, known.name, s.code, known.why) + s.beside()
	default:
		return fmt.Sprintf("%s: %s (%d)", s.call, known.name, s.code) + s.beside()
	}
}

// beside returns CUDA's result as text, "" if there is none.
func (s *status) beside() string {
	if s.cuda == 0 {
		return ""
	}
	return fmt.Sprintf(" (CUDA result %d)", s.cuda)
}

func (s *status) Unwrap() error {
	switch s.code {
	case 0:
		if s.errno == 0 {
			return nil
		}
		return s.errno
	case 5011, 5029, 5047:
		return fault.ErrDevice
	}
	return nil
}

// codes has the names of the library's codes, and explanations of the frequent ones.
var codes = map[int]struct{ name, why string }{
	5001: {"CU_FILE_DRIVER_NOT_INITIALIZED", "nvidia-fs is not loaded"},
	5002: {"CU_FILE_DRIVER_INVALID_PROPS", "cufile.json has settings that the library does not understand"},
	5003: {"CU_FILE_DRIVER_UNSUPPORTED_LIMIT", "cufile.json sets a limit above the supported one"},
	5004: {"CU_FILE_DRIVER_VERSION_MISMATCH", "nvidia-fs and the library are of different versions"},
	5005: {"CU_FILE_DRIVER_VERSION_READ_ERROR", "nvidia-fs does not tell its version"},
	5006: {"CU_FILE_DRIVER_CLOSING", ""},
	5007: {"CU_FILE_PLATFORM_NOT_SUPPORTED", "this machine is not supported"},
	5008: {"CU_FILE_IO_NOT_SUPPORTED", "the file system or the drive is not supported"},
	5009: {"CU_FILE_DEVICE_NOT_SUPPORTED", "the GPU is not supported"},
	5010: {"CU_FILE_NVFS_DRIVER_ERROR", "nvidia-fs is not loaded, or failed"},
	5011: {"CU_FILE_CUDA_DRIVER_ERROR", "the CUDA driver failed"},
	5012: {"CU_FILE_CUDA_POINTER_INVALID", ""},
	5013: {"CU_FILE_CUDA_MEMORY_TYPE_INVALID", ""},
	5014: {"CU_FILE_CUDA_POINTER_RANGE_ERROR", "the range is not in one allocation"},
	5015: {"CU_FILE_CUDA_CONTEXT_MISMATCH", "the memory belongs to another context"},
	5016: {"CU_FILE_INVALID_MAPPING_SIZE", "the mapping is larger than may be pinned"},
	5017: {"CU_FILE_INVALID_MAPPING_RANGE", ""},
	5018: {"CU_FILE_INVALID_FILE_TYPE", "the library cannot read a file of this type"},
	5019: {"CU_FILE_INVALID_FILE_OPEN_FLAG", ""},
	5020: {"CU_FILE_DIO_NOT_SET", "the file is not open for direct I/O"},
	5021: {"CU_FILE_EXPECTED_FILE_MODE", ""},
	5022: {"CU_FILE_INVALID_VALUE", ""},
	5023: {"CU_FILE_MEMORY_ALREADY_REGISTERED", ""},
	5024: {"CU_FILE_MEMORY_NOT_REGISTERED", ""},
	5025: {"CU_FILE_PERMISSION_DENIED", "no permission for nvidia-fs or the drive"},
	5026: {"CU_FILE_DRIVER_ALREADY_OPEN", ""},
	5027: {"CU_FILE_HANDLE_NOT_REGISTERED", ""},
	5028: {"CU_FILE_HANDLE_ALREADY_REGISTERED", ""},
	5029: {"CU_FILE_DEVICE_NOT_FOUND", "the drive or the GPU was not found"},
	5030: {"CU_FILE_INTERNAL_ERROR", "an error within the library"},
	5031: {"CU_FILE_GETNEWFD_FAILED", ""},
	5033: {"CU_FILE_NVFS_SETUP_ERROR", "nvidia-fs could not be set up"},
	5034: {"CU_FILE_IO_DISABLED", ""},
	5035: {"CU_FILE_BATCH_SUBMIT_FAILED", ""},
	5036: {"CU_FILE_GPU_MEMORY_PINNING_FAILED", "the GPU's memory could not be pinned: its BAR1 aperture may be too small"},
	5037: {"CU_FILE_BATCH_FULL", ""},
	5038: {"CU_FILE_ASYNC_NOT_SUPPORTED", ""},
	5039: {"CU_FILE_INTERNAL_BATCH_SETUP_ERROR", ""},
	5040: {"CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR", ""},
	5041: {"CU_FILE_INTERNAL_BATCH_GETSTATUS_ERROR", ""},
	5042: {"CU_FILE_INTERNAL_BATCH_CANCEL_ERROR", ""},
	5043: {"CU_FILE_NOMEM_ERROR", "the library has no memory left"},
	5044: {"CU_FILE_IO_ERROR", "the drive failed"},
	5045: {"CU_FILE_INTERNAL_BUF_REGISTER_ERROR", ""},
	5046: {"CU_FILE_HASH_OPR_ERROR", ""},
	5047: {"CU_FILE_INVALID_CONTEXT_ERROR", "no CUDA context"},
	5048: {"CU_FILE_NVFS_INTERNAL_DRIVER_ERROR", "an error within nvidia-fs"},
	5049: {"CU_FILE_BATCH_NOCOMPAT_ERROR", ""},
	5050: {"CU_FILE_IO_MAX_ERROR", ""},
}
