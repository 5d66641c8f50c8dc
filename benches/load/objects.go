package main

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// unitName is the value of a unit's node label.
func unitName(unit int) string { return fmt.Sprintf("unit-%d", unit) }

// node is as large as a kubelet's: caches of nodes are part of what is measured.
func node(n, unit int) *corev1.Node {
	name := fmt.Sprintf("grid-%05d", n)
	made := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name:   name,
		Labels: map[string]string{uniqKey: unitName(unit), "kubernetes.io/hostname": name, "kubernetes.io/os": "linux"},
		Annotations: map[string]string{
			"node.alpha.kubernetes.io/ttl":                           "0",
			"volumes.kubernetes.io/controller-managed-attach-detach": "true",
		},
	}}
	made.Spec.PodCIDR = fmt.Sprintf("10.%d.%d.0/24", 64+n>>8, n&255)
	made.Spec.PodCIDRs = []string{made.Spec.PodCIDR}
	made.Status = nodeStatus(fmt.Sprintf("172.%d.%d.%d", 16+n>>16, n>>8&255, n&255), name)
	return made
}

// nodeStatus is what a kubelet would say.
func nodeStatus(address, name string) corev1.NodeStatus {
	quantity := resource.MustParse
	room := corev1.ResourceList{
		"cpu": quantity("4"), "memory": quantity("8Gi"), "pods": quantity("110"), "ephemeral-storage": quantity("100Gi"),
	}
	status := corev1.NodeStatus{
		Capacity: room, Allocatable: room,
		Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: address}, {Type: corev1.NodeHostName, Address: name},
		},
		NodeInfo: corev1.NodeSystemInfo{
			Architecture: "amd64", OperatingSystem: "linux", KernelVersion: "6.1.0", OSImage: "Debian GNU/Linux 12",
			ContainerRuntimeVersion: "containerd://2.0.0", KubeletVersion: "v1.37.0",
			MachineID: name, SystemUUID: name, BootID: name,
		},
	}
	now := metav1.Now()
	for _, kind := range []corev1.NodeConditionType{"MemoryPressure", "DiskPressure", "PIDPressure", "Ready"} {
		holds := corev1.ConditionFalse
		if kind == corev1.NodeReady {
			holds = corev1.ConditionTrue
		}
		status.Conditions = append(status.Conditions, corev1.NodeCondition{
			Type: kind, Status: holds, LastHeartbeatTime: now, LastTransitionTime: now,
			Reason: "KubeletReports", Message: "kubelet reports this condition as it should be",
		})
	}
	for n := range 10 {
		image := fmt.Sprintf("registry.example.com/edge/application-%02d", n)
		names := []string{image + ":v1.2.3", fmt.Sprintf("%s@sha256:%064d", image, n)}
		status.Images = append(status.Images, corev1.ContainerImage{Names: names, SizeBytes: 12345678})
	}
	return status
}

// grid is a DeploymentGrid, of one replica in every unit.
func grid() map[string]any {
	labels := map[string]string{"app": gridName}
	pods := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Image: "registry.example.com/edge/app:v1",
			Ports: []corev1.ContainerPort{{ContainerPort: 8080, Protocol: corev1.ProtocolTCP}},
			Env:   []corev1.EnvVar{{Name: "MODE", Value: "edge"}},
		}}},
	}
	template := map[string]any{"replicas": 1, "selector": map[string]any{"matchLabels": labels}, "template": pods}
	return map[string]any{
		"apiVersion": "superedge.io/v1", "kind": "DeploymentGrid",
		"metadata": map[string]any{"name": gridName, "namespace": namespace},
		"spec":     map[string]any{"gridUniqKey": uniqKey, "template": template},
	}
}
