package check

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// objects are the manifests, decoded strictly: an unknown or doubled field is an error.
type objects struct {
	namespace  corev1.Namespace
	config     corev1.ConfigMap
	service    corev1.Service
	disruption policyv1.PodDisruptionBudget
	set        appsv1.StatefulSet
}

func manifests(t *testing.T) *objects {
	t.Helper()
	o := &objects{}
	kinds := map[string]any{"Namespace": &o.namespace, "ConfigMap": &o.config, "Service": &o.service, "PodDisruptionBudget": &o.disruption, "StatefulSet": &o.set}
	for _, doc := range bytes.Split(read(t, "deploy/kubernetes/rmatail.yaml"), []byte("\n---\n")) {
		var of metav1.TypeMeta
		if err := yaml.Unmarshal(doc, &of); err != nil {
			t.Fatal(err)
		}
		into := kinds[of.Kind]
		if into == nil {
			t.Fatalf("an object %q that no test knows", of.Kind)
		}
		delete(kinds, of.Kind)
		if err := yaml.UnmarshalStrict(doc, into); err != nil {
			t.Errorf("%s: %v", of.Kind, err)
		}
	}
	for kind := range kinds {
		t.Errorf("no %s", kind)
	}
	return o
}

// TestKubernetes decodes the manifests with the types of Kubernetes and holds what belongs together in them.
func TestKubernetes(t *testing.T) {
	o := manifests(t)
	pod := o.set.Spec.Template
	if o.set.Spec.ServiceName != o.service.Name || o.service.Spec.ClusterIP != corev1.ClusterIPNone {
		t.Error("pods have names only by a headless service of the set")
	}
	for what, labels := range map[string]map[string]string{
		"service": o.service.Spec.Selector, "set": o.set.Spec.Selector.MatchLabels, "budget": o.disruption.Spec.Selector.MatchLabels,
	} {
		for k, v := range labels {
			if pod.Labels[k] != v {
				t.Errorf("the %s selects %s=%s, which the pods are not", what, k, v)
			}
		}
	}
	for what, ns := range map[string]string{"config": o.config.Namespace, "service": o.service.Namespace, "budget": o.disruption.Namespace, "set": o.set.Namespace} {
		if ns != o.namespace.Name {
			t.Errorf("the %s is in namespace %q", what, ns)
		}
	}
	c := pod.Spec.Containers[0]
	parses(t, c.Args)
	ports := map[string]int32{}
	for _, p := range c.Ports {
		ports[p.Name] = p.ContainerPort
	}
	for what, p := range map[string]*corev1.Probe{"startup": c.StartupProbe, "liveness": c.LivenessProbe, "readiness": c.ReadinessProbe} {
		if p == nil || p.HTTPGet == nil || ports[p.HTTPGet.Port.StrVal] != 7472 {
			t.Errorf("the %s probe does not ask a port of the container", what)
			continue
		}
		if path := p.HTTPGet.Path; path != "/healthz" && path != "/readyz" {
			t.Errorf("the %s probe asks for %s", what, path)
		}
	}
	sc := c.SecurityContext
	if !slices.Equal(sc.Capabilities.Drop, []corev1.Capability{"ALL"}) || !slices.Equal(sc.Capabilities.Add, []corev1.Capability{"IPC_LOCK"}) {
		t.Error("the capabilities are not IPC_LOCK alone")
	}
	if sc.AllowPrivilegeEscalation == nil || !*sc.AllowPrivilegeEscalation {
		t.Error("no_new_privs withholds the capability of the file")
	}
	if ps := pod.Spec.SecurityContext; ps.RunAsNonRoot == nil || !*ps.RunAsNonRoot || *ps.RunAsUser != 7440 || *ps.FSGroup != 7440 {
		t.Error("the user is not that of the image")
	}
	if !slices.ContainsFunc(slices.Collect(keys(c.Resources.Limits)), func(n corev1.ResourceName) bool { return strings.HasPrefix(string(n), "rdma/") }) {
		t.Error("no RDMA device is asked for")
	}
	mounted := map[string]bool{}
	for _, m := range c.VolumeMounts {
		mounted[m.Name] = true
	}
	for _, v := range pod.Spec.Volumes {
		if !mounted[v.Name] {
			t.Errorf("volume %s is not mounted", v.Name)
		}
		if v.ConfigMap != nil && v.ConfigMap.Name != o.config.Name {
			t.Errorf("volume %s is of a config map that is not here", v.Name)
		}
	}
	for _, v := range o.set.Spec.VolumeClaimTemplates {
		if !mounted[v.Name] {
			t.Errorf("claim %s is not mounted", v.Name)
		}
	}
}

func keys[K comparable, V any](m map[K]V) func(func(K) bool) {
	return func(yield func(K) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// TestKubernetesCluster has rmatail check the cluster file of the config map: its nodes are the pods of the set.
func TestKubernetesCluster(t *testing.T) {
	o := manifests(t)
	path := filepath.Join(t.TempDir(), "cluster.yaml")
	text := o.config.Data["cluster.yaml"]
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(bin, "cluster", "check", path).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var file struct {
		Nodes []struct{ Name, Addr, Listen, HTTP, Dir string }
	}
	if err := yaml.Unmarshal([]byte(text), &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Nodes) != int(*o.set.Spec.Replicas) {
		t.Errorf("%d nodes, and %d pods", len(file.Nodes), *o.set.Spec.Replicas)
	}
	for i, n := range file.Nodes {
		name := o.set.Name + "-" + string(rune('0'+i))
		if host := name + "." + o.service.Name + "." + o.namespace.Name + ".svc:7440"; n.Name != name || n.Addr != host {
			t.Errorf("node %q at %q is not the pod %q at %q", n.Name, n.Addr, name, host)
		}
	}
}
