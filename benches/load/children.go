package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// children are the grid's Deployments, seen through one list and watch, so that counting them costs
// the API server next to nothing.
type children struct {
	mu     sync.Mutex
	names  map[string]bool
	latest time.Time // when the latest one was seen
	failed error
}

// followChildren returns when the watch is open.
func followChildren(ctx context.Context, client *kubernetes.Clientset) (*children, error) {
	deployments := client.AppsV1().Deployments(namespace)
	options := metav1.ListOptions{LabelSelector: "superedge.io/grid-selector=" + gridName}
	list, err := deployments.List(ctx, options)
	if err != nil {
		return nil, err
	}
	if len(list.Items) > 0 {
		return nil, errors.New("there are some already: the cluster is not fresh")
	}
	hour := int64(3600)
	options.ResourceVersion, options.TimeoutSeconds = list.ResourceVersion, &hour
	events, err := deployments.Watch(ctx, options)
	if err != nil {
		return nil, err
	}
	c := &children{names: map[string]bool{}}
	go c.follow(events)
	return c, nil
}

// follow takes events until the watch ends, after which nothing can be said any more.
func (c *children) follow(events watch.Interface) {
	for event := range events.ResultChan() {
		c.take(event)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed = errors.Join(c.failed, errors.New("the watch of Deployments has ended"))
}

// take notes what an event says.
func (c *children) take(event watch.Event) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	object, err := meta.Accessor(event.Object)
	if err != nil {
		c.failed = fmt.Errorf("watch Deployments: %v", event.Object)
		return
	}
	switch event.Type {
	case watch.Added:
		c.names[object.GetName()] = true
		c.latest = now
	case watch.Deleted:
		delete(c.names, object.GetName())
	}
}

// await waits for so many and says when the last of them was seen.
func (c *children) await(count int, limit time.Duration) (time.Time, error) {
	for started := time.Now(); ; time.Sleep(time.Millisecond) {
		c.mu.Lock()
		have, latest, failed := len(c.names), c.latest, c.failed
		c.mu.Unlock()
		if failed != nil || have >= count {
			return latest, failed
		}
		if time.Since(started) > limit {
			return latest, fmt.Errorf("only %d of %d Deployments after %s", have, count, limit)
		}
	}
}
