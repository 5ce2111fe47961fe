module strata/cni_flannel

go 1.26.8

require github.com/containernetworking/plugins v0.9.1 // indirect
