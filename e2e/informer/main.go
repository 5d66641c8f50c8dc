// A client-go informer of EndpointSlices, as kube-proxy and CoreDNS have one. For every line on
// standard input it prints what it holds as one line of JSON: slice name to its addresses.
//
//	informer http://127.0.0.1:51006
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"sort"

	discovery "k8s.io/api/discovery/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

func main() {
	if len(os.Args) != 2 {
		fail(fmt.Errorf("usage: %s URL", os.Args[0]))
	}
	config := &rest.Config{Host: os.Args[1]}
	config.ContentType = "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(config)
	fail(err)
	factory := informers.NewSharedInformerFactory(client, 0)
	informer := factory.Discovery().V1().EndpointSlices().Informer()
	stop := make(chan struct{})
	factory.Start(stop)
	cache.WaitForCacheSync(stop, informer.HasSynced)
	out := json.NewEncoder(os.Stdout)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		fail(out.Encode(endpoints(informer.GetStore())))
	}
}

func endpoints(store cache.Store) map[string][]string {
	all := map[string][]string{}
	for _, object := range store.List() {
		slice := object.(*discovery.EndpointSlice)
		addresses := []string{}
		for _, endpoint := range slice.Endpoints {
			addresses = append(addresses, endpoint.Addresses...)
		}
		sort.Strings(addresses)
		all[slice.Namespace+"/"+slice.Name] = addresses
	}
	return all
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
