package main

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"
)

// pollEvery is how often the API server is asked for its metrics, which costs it some work.
const pollEvery = time.Second

// resources are those that a grid controller reads or writes. kube-apiserver itself
// uses others all the time.
var resources = map[string]bool{
	"nodes": true, "deployments": true, "statefulsets": true, "services": true, "deploymentgrids": true,
	"statefulsetgrids": true, "servicegrids": true, "nodeunits": true, "nodegroups": true, "events": true,
}

// calls says how often what was asked of the API server, as in "APPLY deployments" or, unless it went
// well, "PUT deployments/status 409".
type calls map[string]int

// minus is what came after an earlier count.
func (c calls) minus(earlier calls) calls {
	left := calls{}
	for kind, count := range c {
		if count != earlier[kind] {
			left[kind] = count - earlier[kind]
		}
	}
	return left
}

// calls are those that the API server has answered to others until now. Its metric does not tell
// clients apart, so what we have asked for ourselves is taken away.
func (c *cluster) calls(ctx context.Context) (calls, error) {
	text, err := c.client.CoreV1().RESTClient().Get().AbsPath("/metrics").Do(ctx).Raw()
	if err != nil {
		return nil, fmt.Errorf("read the API server's metrics: %w", err)
	}
	return answered(string(text)).minus(c.own), nil
}

// settledCalls waits until there have been no further calls for so long.
func (c *cluster) settledCalls(ctx context.Context, quiet, limit time.Duration) (calls, error) {
	last, err := c.calls(ctx)
	if err != nil {
		return nil, err
	}
	started := time.Now()
	for since := started; time.Since(since) < quiet; {
		time.Sleep(pollEvery)
		now, err := c.calls(ctx)
		if err != nil {
			return nil, err
		}
		if !maps.Equal(now, last) {
			last, since = now, time.Now()
		}
		if time.Since(started) > limit {
			return nil, fmt.Errorf("there are still calls after %s", limit)
		}
	}
	return last, nil
}

// answered reads the request metric. Watches are counted when they end, so they are left out.
func answered(metrics string) calls {
	found := calls{}
	for line := range strings.Lines(metrics) {
		labels, isRequests := strings.CutPrefix(line, "apiserver_request_total{")
		if !isRequests || !resources[label(labels, "resource")] || label(labels, "verb") == "WATCH" {
			continue
		}
		kind := label(labels, "verb") + " " + label(labels, "resource")
		if of := label(labels, "subresource"); of != "" {
			kind += "/" + of
		}
		if code := label(labels, "code"); !strings.HasPrefix(code, "2") {
			kind += " " + code
		}
		count, _ := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(line, ' '):]), 64)
		found[kind] += int(count)
	}
	return found
}

// label is a label's value, of labels as in `code="200",resource="nodes",subresource=""`.
func label(labels, name string) string {
	for pair := range strings.SplitSeq(labels, ",") {
		if value, found := strings.CutPrefix(pair, name+`="`); found {
			value, _, _ = strings.Cut(value, `"`)
			return value
		}
	}
	return ""
}
