"""The manifests of deploy/k8s, tried on a real Kubernetes: `make k8s-test`."""
