package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/rmatail/rmatail/cmd/rmatail/internal/trace"
	"github.com/rmatail/rmatail/rdma"
)

type traceCmd struct {
	File        string        `arg:"" optional:"" help:"Capture file, pcap (also gzipped) or pcapng; - is standard input. Instead of --interface."`
	Interface   string        `short:"i" help:"Capture live from this network interface (Linux; root, or cap_net_raw). Ctrl-C ends it." placeholder:"NETDEV"`
	Write       string        `short:"w" help:"Write the RoCE packets to a pcap file. It has the keys and the data that were on the wire: only you can read it." placeholder:"FILE" type:"path"`
	For         time.Duration `help:"End after this time." placeholder:"TIME"`
	Count       uint64        `short:"c" help:"End after so many RoCE packets." placeholder:"N"`
	Connections int           `help:"Track so many connections at a time, in up to 32 KiB each; those that are silent for longest make room." default:"1024" placeholder:"N"`
	Snaplen     int           `help:"Capture so many bytes of each frame. Below the frame's length its ICRC cannot be checked; 128 is enough for the rest." default:"65535" placeholder:"BYTES"`
	Buffer      size          `help:"Room for captured frames that are not looked at yet." default:"32MiB" placeholder:"SIZE"`
	Top         int           `help:"Show so many connections." default:"20" placeholder:"N"`
	JSON        bool          `name:"json" help:"One JSON object, with all connections."`
}

func (c *traceCmd) Help() string {
	return `Follows RoCE v2 connections: READs, their latency from the request to the last response, what was sent again, came out of
order, was refused or marked by a switch. A row is one direction of reading. RESENT counts requests and responses that came again; GAPS
how often a packet was missing at first, LATE how many then came, MISSING how many did not.

RDMA hardware bypasses the kernel: on its interface nothing is seen. Capture with the device itself ('tcpdump -i mlx5_0 -w FILE', where libpcap
has it) or at a mirror port of the switch, and trace the file.`
}

func (c *traceCmd) Run(p *process) (err error) {
	src, name, err := c.open(p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	ctx, cancel := context.WithCancel(p)
	defer cancel()
	if c.For > 0 && c.Interface != "" { // a silent interface has no frame to tell the time
		ctx, cancel = context.WithTimeout(p, c.For)
		defer cancel()
	}
	o := trace.Options{Connections: c.Connections, Count: c.Count, For: c.For}
	var report trace.Report
	run := func(w io.Writer) error {
		if w != nil {
			o.Write = trace.NewWriter(w)
		}
		report, err = trace.Run(ctx, src, o)
		return err
	}
	if c.Write != "" {
		err = writePrivate(c.Write, run)
	} else {
		err = run(nil)
	}
	report.Source = name
	if report.Packets == 0 && c.Interface != "" {
		report.Hint = c.hint()
	}
	return errors.Join(err, c.show(p, report))
}

func (c *traceCmd) open(p *process) (trace.Source, string, error) {
	switch {
	case (c.File == "") == (c.Interface == ""):
		return nil, "", fmt.Errorf("%w: want a capture file, or --interface NETDEV", errUsage)
	case c.Interface != "":
		src, err := trace.OpenLive(c.Interface, trace.LiveConfig{Snaplen: c.Snaplen, Buffer: int(c.Buffer)})
		if err == nil {
			p.log.Info("capturing", "netdev", c.Interface)
		}
		return src, c.Interface, err
	case c.File == "-":
		src, err := trace.OpenFile(io.NopCloser(p.stdin))
		return src, "standard input", err
	}
	f, err := os.Open(c.File)
	if err != nil {
		return nil, "", err
	}
	src, err := trace.OpenFile(f)
	return src, c.File, err
}

// hint says why a live capture may have seen nothing.
func (c *traceCmd) hint() string {
	devices, _ := rdma.Devices() // none is as good as unknown here
	for _, d := range devices {
		for _, port := range d.Ports {
			if !d.Software && slices.Contains(port.Netdevs, c.Interface) {
				return fmt.Sprintf("%s on %s is hardware, whose packets do not pass through the kernel: capture with 'tcpdump -i %[1]s -w FILE' or at a mirror port, and trace the file",
					d.Name, c.Interface)
			}
		}
	}
	return "no RoCE v2 packet passed: is this the interface that the connection uses? 'rmatail doctor' shows the devices and theirs"
}

func (c *traceCmd) show(p *process, r trace.Report) error {
	if c.JSON {
		return json.NewEncoder(p.stdout).Encode(r)
	}
	return r.WriteText(p.stdout, c.Top)
}

// writePrivate makes a file that its owner alone can read. What was written stays
// there also after an error: a capture that ends badly is still one.
func writePrivate(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
