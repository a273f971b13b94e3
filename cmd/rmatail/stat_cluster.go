package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/chunkstore/cluster/file"
	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/chunkstore/survey"
	"github.com/rmatail/rmatail/cmd/rmatail/internal/states"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
)

// surveyTimeout bounds what one node may take: one that is away is to be seen soon.
const surveyTimeout = 5 * time.Second

// cluster shows the cluster, or one shard of it.
func (c *statCmd) cluster(p *process) error {
	if err := c.check(); err != nil {
		return err
	}
	if c.Shards < 1 {
		return fmt.Errorf("%w: --shards %d, want 1 or more", errUsage, c.Shards)
	}
	if err := p.know(c.Cluster); err != nil {
		return err
	}
	f, err := file.Load(c.Cluster)
	if err != nil {
		return err
	}
	view, err := cluster.NewView(f.Description)
	if err != nil {
		return err
	}
	o := survey.Options{Shards: c.Shards, Timeout: surveyTimeout,
		Dial: func(ctx context.Context, addr string) (*wire.Client, error) { return dial(ctx, p, addr) },
		List: func(ctx context.Context, after string, limit int) ([]durable.Entry, error) {
			s, err := openStore(ctx, p, c.storeFlags)
			if err != nil {
				return nil, err
			}
			defer s.Close()
			return s.List(ctx, after, limit)
		}}
	if c.Shard != nil {
		o.Wanted = func(shard string) bool { return shard == c.Shard.String() }
	}
	r := survey.Of(p, view, o)
	if err := c.settle(p, &r, func() survey.Report { return survey.Of(p, view, o) }); err != nil {
		return err
	}
	if c.Shard != nil && r.StoreError == "" && len(r.Shards) == 0 {
		return fmt.Errorf("%w: %s", wire.ErrUnknownShard, c.Shard)
	}
	if c.JSON {
		return json.NewEncoder(p.stdout).Encode(r)
	}
	return writeSurvey(p.stdout, r, view)
}

// secondLook is between two surveys, where one does not tell enough: longer than
// heartbeats are apart.
const secondLook = 1200 * time.Millisecond

// settle decides the state of each shard, with a second survey if that tells more.
func (c *statCmd) settle(p *process, r *survey.Report, again func() survey.Report) error {
	asking, cancel := context.WithTimeout(p, surveyTimeout)
	defer cancel()
	consumers, err := c.consumers(asking)
	if err != nil {
		return err
	}
	if !states.Unsettled(r) {
		states.Settle(r, nil, 0, consumers, time.Now())
		return nil
	}
	before, at := *r, time.Now()
	pause := time.NewTimer(secondLook)
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-p.Done():
		return errInterrupted
	}
	*r = again()
	now := time.Now()
	states.Settle(r, &before, now.Sub(at), consumers, now)
	return nil
}

// writeSurvey prints a Report for people.
func writeSurvey(out io.Writer, r survey.Report, v *cluster.View) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	up := 0
	for _, n := range r.Nodes {
		if n.Up {
			up++
		}
	}
	fmt.Fprintf(w, "cluster %s: %d of %d nodes up; an extent has %d full replicas and %d partial ones, a length page %d\n\n",
		nameOr(r.Name, "(no name)"), up, len(r.Nodes), v.Full, v.Partial, v.MetadataReplicas)
	fmt.Fprintln(w, "NODE\tADDRESS\tROLES\tUP\tEPOCH\tMEMORY\tPUTS\tPUBLISHED\tTCP READS\tLEASES\tHIT RATE\tMISSING")
	for _, n := range r.Nodes {
		roles := strings.Join(n.Roles, ",")
		if n.Partial {
			roles = strings.Replace(roles, "data", "partial", 1)
		}
		if n.Store {
			roles += ",store"
		}
		missing := "-"
		if n.Missing != nil {
			missing = about(float64(*n.Missing))
		}
		if !n.Up {
			fmt.Fprintf(w, "%s\t%s\t%s\tdown\t-\t-\t-\t-\t-\t-\t-\t%s\n", n.Name, n.Addr, roles, missing)
			continue
		}
		hit := "-"
		if n.HitRate != nil {
			hit = fmt.Sprintf("%.1f %%", 100**n.HitRate)
		}
		used := float64(n.Extents.Used) * layout.ExtentSize
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%016x\t%s of %s\t%d\t%d\t%d\t%d\t%s\t%s\n", n.Name, n.Addr, roles, uptime(n.Uptime), n.Epoch,
			about(used), about(float64(n.Arena)), n.Puts, n.Publishes, n.Reads, n.Leases, hit, missing)
	}
	fmt.Fprintln(w, "\nSHARD\tLENGTH\tLAG\tBEHIND\tWRITER\tSTATE\tWHY")
	for _, s := range worstFirst(r.Shards) {
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\t%v\t%s\n", s.Shard, s.Length, s.Lag, behind(s), writer(s), s.State, s.Why)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if r.More {
		fmt.Fprintf(out, "and others: --shards looks at more than %d\n", len(r.Shards))
	}
	if r.StoreError != "" {
		fmt.Fprintf(out, "the durable store does not say which shards there are: %s\n", r.StoreError)
	}
	for _, n := range r.Nodes {
		if n.Error != "" {
			fmt.Fprintf(out, "%s: %s\n", n.Name, n.Error)
		}
	}
	return nil
}

// worstFirst are shards by their state in the order of package cause, and by name.
func worstFirst(shards []survey.Shard) []survey.Shard {
	shards = slices.Clone(shards)
	slices.SortStableFunc(shards, func(a, b survey.Shard) int { return cmp.Compare(survey.Rank(a.State), survey.Rank(b.State)) })
	return shards
}

// behind says how far each metadata replica is behind.
func behind(s survey.Shard) string {
	var parts []string
	for _, r := range s.Replicas {
		lag := fmt.Sprint(r.Lag)
		if r.Error != "" {
			lag = "?"
		}
		parts = append(parts, r.Node+" "+lag)
	}
	return strings.Join(parts, ", ")
}

// writer is who holds the shard's lease by the highest ballot.
func writer(s survey.Shard) string {
	var best survey.Replica
	for _, r := range s.Replicas {
		if r.Writer != "" && (best.Writer == "" || r.Ballot > best.Ballot) {
			best = r
		}
	}
	if best.Writer == "" {
		return "-"
	}
	return fmt.Sprintf("%s (lease for %.0f s)", best.Writer, best.Left)
}

// uptime prints seconds in the two largest units.
func uptime(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d >= 24*time.Hour:
		return fmt.Sprintf("%dd%dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
	case d >= time.Minute:
		return d.Truncate(time.Second).String()
	}
	return d.Truncate(100 * time.Millisecond).String()
}
