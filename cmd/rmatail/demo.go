package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/rmatail/rmatail/cmd/rmatail/internal/demo"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/rdma"
	"github.com/rmatail/rmatail/reader"
)

type demoCmd struct {
	Input     string        `help:"File whose lines are appended, over and over. Default: a log of this host that can be read, else a generated access log." placeholder:"FILE" type:"path"`
	Consumers int           `help:"How many processes follow." default:"8" placeholder:"N"`
	Nodes     int           `help:"How many nodes, each a process. Above 1 they are a cluster, of which the first owns the durable files." default:"1" placeholder:"N"`
	Kill      bool          `help:"With --nodes: kill the last node after a third of the time, and start it again, empty, after two."`
	For       time.Duration `help:"How long lines are appended." default:"10s" placeholder:"TIME"`
	Rate      size          `help:"Bytes to append in a second." default:"2MiB" placeholder:"SIZE"`
	Transport transport     `help:"Memory transport of the consumers: auto (shm here, as all is on one host), shm, rdma or tcp." default:"auto" placeholder:"NAME"`
	Policy    policy        `help:"When the node flushes appends to the disk: always, interval or never." default:"always" placeholder:"NAME"`
	Arena     size          `help:"Each node's memory for recent bytes." default:"64MiB" placeholder:"SIZE"`
	Listen    string        `help:"The node's address, of a cluster its host. Default: the loopback, with --transport rdma an address of an RDMA device." placeholder:"HOST:PORT"`
	Device    string        `help:"RDMA device of the consumers (default: the one that routes to the node)." placeholder:"NAME"`
	Keep      string        `help:"Keep the durable files and logs of the processes in this new directory." placeholder:"DIR" type:"path"`
	JSON      bool          `name:"json" help:"Result as one JSON object on standard output."`
}

func (c *demoCmd) Help() string {
	return `Starts nodes, a producer and consumers, each consumer a process of its own. Every delivered byte is compared with the durable files.
Delivery times are from before an append, so they contain the flush to the disk, until a consumer holds the bytes.
Exit code 1 if a byte was wrong or missing.`
}

func (c *demoCmd) Run(p *process) error {
	switch {
	case c.Consumers < 1 || c.Consumers > 1000:
		return fmt.Errorf("%w: --consumers %d, want 1 to 1000", errUsage, c.Consumers)
	case c.Nodes < 1 || c.Nodes > 100:
		return fmt.Errorf("%w: --nodes %d, want 1 to 100", errUsage, c.Nodes)
	case c.Kill && c.Nodes < 2:
		return fmt.Errorf("%w: --kill needs --nodes 2 or more: the node that owns the durable files is not killed", errUsage)
	case c.For <= 0 || c.Rate < 1:
		return fmt.Errorf("%w: --for %s and --rate %s, want more than nothing", errUsage, c.For, c.Rate)
	}
	if c.Keep != "" {
		if _, err := os.Stat(c.Keep); err == nil {
			return fmt.Errorf("%w: --keep %s exists; name a new directory", errUsage, c.Keep)
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	devices := findDevices()
	listen := c.Listen
	if listen == "" {
		if listen, err = devices.listen(reader.Transport(c.Transport), c.Device); err != nil {
			return err
		}
	}
	view := &demo.View{Out: p.stderr, For: c.For, Size: terminal(p.stderr)}
	cfg := demo.Config{Input: c.Input, Consumers: c.Consumers, Nodes: c.Nodes, Kill: c.Kill, For: c.For, Rate: int64(c.Rate), Policy: durable.Policy(c.Policy).String(), Arena: c.Arena.String(),
		Transport: reader.Transport(c.Transport).String(), Listen: listen, Device: c.Device, RDMA: devices.text, Dir: c.Keep, Command: self, Progress: view.Show}
	p.log.Info("starting nodes and consumers", "nodes", c.Nodes, "consumers", c.Consumers, "for", c.For, "rate", c.Rate.String(), "rdma", devices.text)
	report, err := demo.Run(p, cfg)
	if err != nil {
		return err
	}
	if c.JSON {
		err = json.NewEncoder(p.stdout).Encode(report)
	} else {
		err = report.Write(p.stdout)
	}
	if err == nil && report.Wrong() != "" {
		err = errors.New(report.Wrong())
	}
	return err
}

// devices are what this host has for RDMA.
type devices struct {
	found []rdma.Device
	text  string // for people
}

func findDevices() (d devices) {
	all, err := rdma.Devices()
	if err != nil {
		return devices{text: "not looked for: " + err.Error()}
	}
	var names []string
	for _, dev := range all {
		for _, port := range dev.Ports {
			if port.Active() {
				d.found = append(d.found, dev)
				names = append(names, dev.Name)
				break
			}
		}
	}
	switch {
	case len(names) > 0:
		d.text = strings.Join(names, ", ") + " could be used: --transport rdma"
	case len(all) > 0:
		d.text = fmt.Sprintf("%d devices, none with an active port", len(all))
	default:
		d.text = "no device on this host"
	}
	return d
}

// listen returns the address for the node: one that RDMA reaches if it has to.
func (d devices) listen(t reader.Transport, device string) (string, error) {
	if t != reader.RDMA {
		return "127.0.0.1:0", nil
	}
	for _, dev := range d.found {
		if device != "" && dev.Name != device {
			continue
		}
		for _, port := range dev.Ports {
			for _, netdev := range port.Netdevs {
				if addr, ok := addressOf(netdev); ok {
					return net.JoinHostPort(addr, "0"), nil
				}
			}
		}
	}
	return "", fmt.Errorf("--transport rdma: %s; without one, shm shows the same one-sided reads (--transport auto), and scripts/rxe-up makes soft-RoCE devices where the kernel can", d.text)
}

// addressOf returns an address of a network device, IPv4 first.
func addressOf(netdev string) (string, bool) {
	i, err := net.InterfaceByName(netdev)
	if err != nil {
		return "", false
	}
	addrs, err := i.Addrs()
	if err != nil {
		return "", false
	}
	other := ""
	for _, a := range addrs {
		n, ok := a.(*net.IPNet)
		switch {
		case !ok || n.IP.IsLinkLocalUnicast():
		case n.IP.To4() != nil:
			return n.IP.String(), true
		case other == "":
			other = n.IP.String()
		}
	}
	return other, other != ""
}

// demoConsumerCmd is one consumer process of the demo.
type demoConsumerCmd struct {
	readFlags
	Samples string `help:"File of samples."`
	Shard   shard  `arg:""`
}

func (c *demoConsumerCmd) Run(p *process) error {
	source, err := c.openCluster(p)
	if err != nil {
		return err
	}
	if source != nil {
		defer source.Close()
	}
	cfg := c.config(p, source)
	cfg.Dir = "" // the reader reads through the node; the directory is what it is compared with
	return demo.Consume(p, demo.ConsumerConfig{Reader: cfg, Shard: c.Shard.String(), Dir: c.Dir, Samples: c.Samples, Control: p.stdin, Out: p.stdout})
}
