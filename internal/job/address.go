package job

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"

	"diskgnn/internal/fault"
)

// Ports is the number of ports that the first process tries: its own and the next 16. A launcher may
// use the first one, as torchrun uses MASTER_PORT.
const Ports = 17

// defaultPort is the port without MASTER_PORT or another source. It differs from torchrun's.
const defaultPort = 29400

// loopback is the address at which processes of one host connect.
const loopback = "127.0.0.1"

// address sets the host and port of a place among several replicas. MASTER_ADDR and MASTER_PORT take
// precedence over the set's address. Processes that are all on one host use its loopback address, which
// no other host reaches, and ignore MASTER_ADDR.
func (p *Place) address(use Use, env Env, r reading) error {
	if use != Replicas || p.Alone() {
		return nil
	}
	p.Host, p.Port = r.host, r.port
	if host := env("MASTER_ADDR"); host != "" {
		p.Host = host
	}
	if r.localCount > 0 && r.localCount == r.count {
		p.Host = loopback
	}
	if text := env("MASTER_PORT"); text != "" {
		var ok bool
		if p.Port, ok = port(text); !ok {
			return fault.New(fault.ErrUsage, "MASTER_PORT=%s is no port: 1 to %d", text, lastPort)
		}
	}
	if p.Port == 0 {
		p.Port = defaultPort
	}
	if p.Host == "" {
		return fault.New(fault.ErrUsage, "process %d of %d, by %s, has no address of the first process: set MASTER_ADDR to its host, the same for all", p.Index, p.Count, p.From)
	}
	return nil
}

// lastPort is the last port that Ports-1 further ports can follow.
const lastPort = 1<<16 - Ports

func port(text string) (int, bool) {
	n, ok := number(text)
	return n, ok && n >= 1 && n <= lastPort
}

// Addresses returns the addresses, host:port, at which the first process may listen, in the order in
// which it tries them. A handshake must find the right one, and check that it belongs to the same run.
func (p Place) Addresses() []string {
	list := make([]string, Ports)
	for i := range list {
		list[i] = net.JoinHostPort(p.Host, strconv.Itoa(p.Port+i))
	}
	return list
}

// Local reports whether all processes of the job are on this host and use its loopback address. It
// depends on the text of the address alone, so that all processes agree: a host name may resolve to a
// loopback address on one host, as on Debian, and to another address elsewhere.
func (p Place) Local() bool {
	ip := net.ParseIP(p.Host)
	return p.Count < 2 || p.Host == "localhost" || ip != nil && ip.IsLoopback()
}

// Listen listens on the first free address of the place, for the process with index 0. The caller must
// close the listener. If no port is free, the error is of kind fault.ErrUsage.
func (p Place) Listen(ctx context.Context) (net.Listener, error) {
	hosts := []string{p.Host}
	if !p.Local() {
		hosts = p.own(ctx)
	}
	var config net.ListenConfig
	for i := range Ports {
		for _, host := range hosts {
			l, err := config.Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(p.Port+i)))
			if err == nil {
				return l, nil
			}
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if errors.Is(err, syscall.EADDRINUSE) {
				break // try the next port: on other interfaces this port may belong to another process
			}
			if host == hosts[len(hosts)-1] {
				return nil, fmt.Errorf("listen for the other processes at %s: %w", net.JoinHostPort(p.Host, strconv.Itoa(p.Port+i)), err)
			}
		}
	}
	return nil, fault.New(fault.ErrUsage, "listen for the other processes: ports %d to %d of %s are taken; set MASTER_PORT to another one", p.Port, p.Port+Ports-1, p.Host)
}

// own returns the addresses at which the first process listens for other hosts: the addresses of its
// name, without loopback addresses. If there are none, as for the name of a service, it listens on all
// interfaces.
func (p Place) own(ctx context.Context) []string {
	var hosts []string
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", p.Host)
	for _, a := range found {
		if a = a.Unmap(); err == nil && !a.IsLoopback() {
			hosts = append(hosts, a.String())
		}
	}
	return append(hosts, "")
}
