package rate

import (
	"bufio"
	"bytes"
	"os"
	"strconv"
)

// DeviceBytes returns the bytes that this process has had fetched from drives of the
// kernel's so far, read-ahead included; what the page cache had is not in it. false: the
// system does not say. Drives that are driven from here are not the kernel's.
func DeviceBytes() (int64, bool) {
	b, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return 0, false
	}
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		if text, ok := bytes.CutPrefix(s.Bytes(), []byte("read_bytes: ")); ok {
			n, err := strconv.ParseInt(string(text), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}
