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

// Ports is how many ports the first process may listen on: its own and the next 16. A
// launcher may hold the first, as torchrun does MASTER_PORT for itself.
const Ports = 17

// defaultPort is taken where nothing says one. It is not torchrun's.
const defaultPort = 29400

// loopback is where processes of one host find each other.
const loopback = "127.0.0.1"

// address completes a place of one of several replicas: MASTER_ADDR and MASTER_PORT win over the
// set's address. Processes that are all on one host meet at its loopback, whatever MASTER_ADDR says,
// which no other host reaches.
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

// lastPort is the last one with room for the others after it.
const lastPort = 1<<16 - Ports

func port(text string) (int, bool) {
	n, ok := number(text)
	return n, ok && n >= 1 && n <= lastPort
}

// Addresses returns where the first process may be found, host:port, in the order in which it
// tries them. Which one it took, and that it is of the same run, a handshake has to say.
func (p Place) Addresses() []string {
	list := make([]string, Ports)
	for i := range list {
		list[i] = net.JoinHostPort(p.Host, strconv.Itoa(p.Port+i))
	}
	return list
}

// Local reports whether all processes of the job are on this host, and meet where no other host
// reaches them. It goes by how the address is written, so that all of them say the same: a name that
// is of a loopback address here, as Debian has the host's own, is another address elsewhere.
func (p Place) Local() bool {
	ip := net.ParseIP(p.Host)
	return p.Count < 2 || p.Host == "localhost" || ip != nil && ip.IsLoopback()
}

// Listen listens on the first of the place's addresses that is free: for the process with
// index 0. The caller closes the listener. Where none of the ports is free, the error wraps the
// last one's.
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
				break // the next port: on all interfaces it would be another process's for some
			}
			if host == hosts[len(hosts)-1] {
				return nil, fmt.Errorf("listen for the other processes at %s: %w", net.JoinHostPort(p.Host, strconv.Itoa(p.Port+i)), err)
			}
		}
	}
	return nil, fault.New(fault.ErrUsage, "listen for the other processes: ports %d to %d of %s are taken; set MASTER_PORT to another one", p.Port, p.Port+Ports-1, p.Host)
}

// own returns where the first process listens for other hosts: on the addresses of its name, without
// loopback addresses, which others do not reach; else on all interfaces, as where the name is a
// service's.
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
