// Seload is the program that measured SuperEdge's application-grid-controller. It measures any
// controller of DeploymentGrids (superedge.io/v1) as a process beside it, so that SuperEdge's and ours
// are held against one ruler: `cargo xtask bench controller` runs it on ours.
//
//	seload gridbench -kubeconfig FILE -pid CONTROLLER -units 1000
//
// The cluster is to be fresh, with the definitions installed, the controller at rest and no other
// controller beside it; nothing is cleaned up. What was measured is printed as one JSON object:
//
//	nodes ─► grid ─► Deployments, seen through one list and watch       stamp
//	one more node, in a new unit, -joins times                          joins
//	-status-events changes of a Deployment's ready replicas             status
//	nothing at all for -resync                                          idle
//
// CPU time and memory are the controller's, as the kernel counts them; calls are those that
// kube-apiserver has counted, without those of this program (see calls.go).
package main

import (
	"encoding/json"
	"fmt"
	"os"
)

func main() {
	if len(os.Args) < 2 || os.Args[1] != "gridbench" {
		fmt.Fprintln(os.Stderr, "usage: seload gridbench [flags]   (-h lists them)")
		os.Exit(2)
	}
	measured, err := gridbench(os.Args[2:])
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(measured)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}
