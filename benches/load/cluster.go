package main

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	namespace  = "gridbench"
	gridName   = "dg"
	uniqKey    = "gridunit" // the node label whose values are the units
	sideBySide = 16         // nodes created at the same time
)

// cluster is what we ask of the API server, each call noted, so that those of the controller remain.
type cluster struct {
	client *kubernetes.Clientset
	own    calls
}

// connect makes a client without a rate limit, which asks for protobuf.
func connect(kubeconfig string) (*cluster, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.UserAgent = "seload-gridbench"
	config.QPS = -1 // no limit of our own
	config.WarningHandler = rest.NoWarnings{}
	config.DisableCompression = true // spares the API server work
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &cluster{client: client, own: calls{}}, nil
}

// createNamespace creates that of the grid.
func (c *cluster) createNamespace(ctx context.Context) error {
	wanted := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	_, err := c.client.CoreV1().Namespaces().Create(ctx, wanted, metav1.CreateOptions{})
	return err
}

// createNodes creates the nodes from one number to before another.
func (c *cluster) createNodes(ctx context.Context, from, to int, unitOf func(node int) int) error {
	numbers, failures := make(chan int), make(chan error)
	for range sideBySide {
		go func() {
			var failed error
			for n := range numbers {
				if failed == nil {
					_, failed = c.client.CoreV1().Nodes().Create(ctx, node(n, unitOf(n)), metav1.CreateOptions{})
				}
			}
			failures <- failed
		}()
	}
	for n := from; n < to; n++ {
		numbers <- n
	}
	close(numbers)
	var failed error
	for range sideBySide {
		if err := <-failures; err != nil {
			failed = err
		}
	}
	c.own["POST nodes"] += to - from
	return failed
}

// createGrid creates a grid of Deployments over all units.
func (c *cluster) createGrid(ctx context.Context) error {
	body, err := json.Marshal(grid())
	if err != nil {
		return err
	}
	path := fmt.Sprintf("/apis/superedge.io/v1/namespaces/%s/deploymentgrids", namespace)
	request := c.client.CoreV1().RESTClient().Post().AbsPath(path)
	c.own["POST deploymentgrids"]++
	return request.SetHeader("Content-Type", "application/json").Body(body).Do(ctx).Error()
}

// flipReady changes whether a unit's Deployment has its replica ready.
func (c *cluster) flipReady(ctx context.Context, unit int) error {
	deployments := c.client.AppsV1().Deployments(namespace)
	c.own["GET deployments"]++
	child, err := deployments.Get(ctx, gridName+"-"+unitName(unit), metav1.GetOptions{})
	if err != nil {
		return err
	}
	ready := 1 - child.Status.ReadyReplicas
	child.Status.Replicas, child.Status.ReadyReplicas, child.Status.AvailableReplicas = 1, ready, ready
	c.own["PUT deployments/status"]++
	_, err = deployments.UpdateStatus(ctx, child, metav1.UpdateOptions{})
	return err
}
