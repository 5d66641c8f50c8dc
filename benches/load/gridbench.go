package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"
)

// options are what was typed on the command line.
type options struct {
	kubeconfig   string
	pid          int
	units        int
	nodesPerUnit int
	joins        int
	statusEvents int
	statusGap    time.Duration
	resync       time.Duration
	quiet        time.Duration
	timeout      time.Duration
}

// parse reads the command line.
func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("gridbench", flag.ExitOnError)
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig of the API server")
	flags.IntVar(&o.pid, "pid", 0, "process of the controller")
	flags.IntVar(&o.units, "units", 10, "number of units")
	flags.IntVar(&o.nodesPerUnit, "nodes-per-unit", 1, "nodes of each unit")
	flags.IntVar(&o.joins, "joins", 3, "nodes that join, each a new unit, one after the other")
	flags.IntVar(&o.statusEvents, "status-events", 0, "Deployments whose ready replicas change, one after the other")
	flags.DurationVar(&o.statusGap, "status-interval", 500*time.Millisecond, "time between them")
	flags.DurationVar(&o.resync, "resync", 65*time.Second, "length of the idle phase")
	flags.DurationVar(&o.quiet, "quiet", 5*time.Second, "a phase is over after this long without a call")
	flags.DurationVar(&o.timeout, "timeout", 5*time.Minute, "give up a phase after this long")
	flags.Parse(args)
	if o.kubeconfig == "" || o.pid <= 0 || o.units <= 0 || o.nodesPerUnit <= 0 {
		return o, errors.New("-kubeconfig and -pid are needed, and at least one unit of one node")
	}
	return o, nil
}

// result is what is printed.
type result struct {
	Units  int     `json:"units"`
	Nodes  int     `json:"nodes"`
	Stamp  phase   `json:"stamp"`
	Joins  []phase `json:"joins"`
	Status phase   `json:"status"`
	Idle   phase   `json:"idle"`
}

// phase is what the controller has used for one thing that happened.
type phase struct {
	Seconds float64 `json:"seconds"` // until the last Deployment was seen, or that the phase lasted
	Calls   calls   `json:"calls"`
	CPU     float64 `json:"cpu_s"`
	RSS     int64   `json:"rss_kib"`      // at the end of the phase
	Peak    int64   `json:"rss_peak_kib"` // since the controller's start
}

// bench is a run under way.
type bench struct {
	options
	cluster  *cluster
	children *children
	counted  calls // at the end of the last phase
}

// gridbench measures one phase after the other.
func gridbench(args []string) (*result, error) {
	o, err := parse(args)
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	b, err := prepare(ctx, o)
	if err != nil {
		return nil, err
	}
	out := &result{Units: o.units, Nodes: o.units * o.nodesPerUnit}
	if out.Stamp, err = b.stamp(ctx); err != nil {
		return nil, fmt.Errorf("stamp the grid: %w", err)
	}
	for n := range o.joins {
		joined, err := b.join(ctx, n)
		if err != nil {
			return nil, fmt.Errorf("let a node join: %w", err)
		}
		out.Joins = append(out.Joins, joined)
	}
	if out.Status, err = b.changeStatus(ctx); err != nil {
		return nil, fmt.Errorf("change the status of Deployments: %w", err)
	}
	if out.Idle, err = b.idle(ctx); err != nil {
		return nil, fmt.Errorf("leave the controller alone: %w", err)
	}
	return out, nil
}

// prepare makes the nodes, opens the watch and waits until the controller has come to rest.
func prepare(ctx context.Context, o options) (*bench, error) {
	cluster, err := connect(o.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", o.kubeconfig, err)
	}
	if err := cluster.createNamespace(ctx); err != nil {
		return nil, fmt.Errorf("create the namespace: %w", err)
	}
	unitOf := func(node int) int { return node % o.units }
	if err := cluster.createNodes(ctx, 0, o.units*o.nodesPerUnit, unitOf); err != nil {
		return nil, fmt.Errorf("create the nodes: %w", err)
	}
	children, err := followChildren(ctx, cluster.client)
	if err != nil {
		return nil, fmt.Errorf("watch Deployments: %w", err)
	}
	awaitIdle(o.pid, 20*time.Second)
	counted, err := cluster.settledCalls(ctx, o.quiet, o.timeout)
	if err != nil {
		return nil, err
	}
	return &bench{options: o, cluster: cluster, children: children, counted: counted}, nil
}

// stamp creates the grid and waits for the Deployments of all units.
func (b *bench) stamp(ctx context.Context) (phase, error) {
	return b.measure(ctx, func(started time.Time) (float64, error) {
		if err := b.cluster.createGrid(ctx); err != nil {
			return 0, err
		}
		last, err := b.children.await(b.units, b.timeout)
		return last.Sub(started).Seconds(), err
	})
}

// join adds the n-th new unit, of one node.
func (b *bench) join(ctx context.Context, n int) (phase, error) {
	return b.measure(ctx, func(started time.Time) (float64, error) {
		node, unit := b.units*b.nodesPerUnit+n, b.units+n
		if err := b.cluster.createNodes(ctx, node, node+1, func(int) int { return unit }); err != nil {
			return 0, err
		}
		last, err := b.children.await(unit+1, b.timeout)
		return last.Sub(started).Seconds(), err
	})
}

// changeStatus lets Deployments become ready, or no longer ready, one after the other.
func (b *bench) changeStatus(ctx context.Context) (phase, error) {
	return b.measure(ctx, func(started time.Time) (float64, error) {
		for n := range b.statusEvents {
			if err := b.cluster.flipReady(ctx, n%b.units); err != nil {
				return 0, err
			}
			time.Sleep(b.statusGap)
		}
		return time.Since(started).Seconds(), nil
	})
}

// idle lets the time of the resync pass.
func (b *bench) idle(ctx context.Context) (phase, error) {
	before, err := readProc(b.pid)
	if err != nil {
		return phase{}, err
	}
	time.Sleep(b.resync)
	now, err := b.cluster.calls(ctx)
	if err != nil {
		return phase{}, err
	}
	return b.since(before, now, b.resync.Seconds())
}

// measure does something and waits until the controller has dealt with it.
func (b *bench) measure(ctx context.Context, act func(started time.Time) (float64, error)) (phase, error) {
	before, err := readProc(b.pid)
	if err != nil {
		return phase{}, err
	}
	seconds, err := act(time.Now())
	if err != nil {
		return phase{}, err
	}
	now, err := b.cluster.settledCalls(ctx, b.quiet, b.timeout)
	if err != nil {
		return phase{}, err
	}
	awaitIdle(b.pid, 10*time.Second)
	return b.since(before, now, seconds)
}

// since closes a phase that began after the last one.
func (b *bench) since(before procStat, now calls, seconds float64) (phase, error) {
	after, err := readProc(b.pid)
	if err != nil {
		return phase{}, err
	}
	made := now.minus(b.counted)
	b.counted = now
	return phase{Seconds: seconds, Calls: made, CPU: after.cpuSince(before), RSS: after.rss, Peak: after.peak}, nil
}
