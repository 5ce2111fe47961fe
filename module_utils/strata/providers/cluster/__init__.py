"""Provider `cluster`: nodes of a Kubernetes cluster that exists, through its kubeconfig alone."""
