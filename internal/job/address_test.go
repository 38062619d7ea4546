package job

import (
	"errors"
	"net"
	"strconv"
	"strings"
	"testing"

	"diskgnn/internal/fault"
)

// portOf returns the port that a listener has.
func portOf(t *testing.T, l net.Listener) int {
	t.Helper()
	_, text, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestListenBeside: what holds MASTER_PORT, as torchrun does, is passed by; the port that is
// taken instead is one of those that the others try.
func TestListenBeside(t *testing.T) {
	holder, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	p := Place{Count: 2, Host: "127.0.0.1", Port: portOf(t, holder)}
	if p.Port > 1<<16-Ports {
		t.Skip("the system gave one of the last ports")
	}
	l, err := p.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if n := portOf(t, l); n <= p.Port || n >= p.Port+Ports {
		t.Errorf("listens on %d, beside %d", n, p.Port)
	}
	list := p.Addresses()
	if len(list) != 17 || list[0] != holder.Addr().String() {
		t.Errorf("addresses %v", list)
	}
	found := false
	for _, a := range list {
		found = found || a == l.Addr().String()
	}
	if !found {
		t.Errorf("%v is not among %v", l.Addr(), list)
	}
}

// TestListenNowhere: 17 ports are taken.
func TestListenNowhere(t *testing.T) {
	base := 0
	var held []net.Listener
	release := func() {
		for _, l := range held {
			l.Close()
		}
		held = nil
	}
	defer release()
search:
	for try := 20100; try < 32000; try += Ports {
		for i := range Ports {
			l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(try+i))
			if err != nil {
				release()
				continue search
			}
			held = append(held, l)
		}
		base = try
		break
	}
	if base == 0 {
		t.Skip("no 17 free ports in a row")
	}
	_, err := Place{Count: 2, Host: "127.0.0.1", Port: base}.Listen(t.Context())
	if !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), "MASTER_PORT") {
		t.Fatal(err)
	}
}

// TestListenUnderAName: the name is of no address here, as a service's may be.
func TestListenUnderAName(t *testing.T) {
	probe, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	free := portOf(t, probe)
	probe.Close()
	if free > 1<<16-Ports {
		t.Skip("the system gave one of the last ports")
	}
	l, err := Place{Count: 2, Host: "203.0.113.1", Port: free}.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if host, _, _ := net.SplitHostPort(l.Addr().String()); host != "::" && host != "0.0.0.0" {
		t.Errorf("listens on %v", l.Addr())
	}
}

// TestLocal: how the address is written says whether other hosts take part.
func TestLocal(t *testing.T) {
	for host, want := range map[string]bool{"127.0.0.1": true, "127.0.1.1": true, "::1": true, "localhost": true, "10.0.0.1": false, "n1": false, "0.0.0.0": false, "localhost.example": false} {
		if got := (Place{Count: 2, Host: host}).Local(); got != want {
			t.Errorf("%s: %t", host, got)
		}
	}
	if !(Place{Count: 1}).Local() {
		t.Error("a process by itself is not local")
	}
}

// TestListensWhere: processes of one host meet at its loopback; for others the first one listens on
// the address of its own that they were told, or on all interfaces.
func TestListensWhere(t *testing.T) {
	probe, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	free := portOf(t, probe)
	probe.Close()
	if free > 1<<16-Ports {
		t.Skip("the system gave one of the last ports")
	}
	cases := map[string]string{"localhost": "127.0.0.1", "127.0.0.1": "127.0.0.1", "203.0.113.1": ""}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLoopback() && !n.IP.IsLinkLocalUnicast() {
			cases[n.IP.String()] = n.IP.String()
		}
	}
	for host, want := range cases {
		l, err := Place{Count: 2, Host: host, Port: free}.Listen(t.Context())
		if err != nil {
			t.Errorf("%s: %v", host, err)
			continue
		}
		at := l.Addr().(*net.TCPAddr).IP
		l.Close()
		if want == "" && !at.IsUnspecified() || want != "" && !at.Equal(net.ParseIP(want)) && !(host == "localhost" && at.IsLoopback()) {
			t.Errorf("%s: listens on %s, want %q", host, at, want)
		}
	}
}

// TestOwn: a host's own name may be that of its loopback, which other hosts do not reach.
func TestOwn(t *testing.T) {
	if got := (Place{Count: 2, Host: "127.0.1.1"}).own(t.Context()); len(got) != 1 || got[0] != "" {
		t.Errorf("%q", got)
	}
	if got := (Place{Count: 2, Host: "203.0.113.1"}).own(t.Context()); len(got) != 2 || got[0] != "203.0.113.1" || got[1] != "" {
		t.Errorf("%q", got)
	}
}
