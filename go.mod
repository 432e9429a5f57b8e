module github.com/helmkernel/helm

go 1.25.0
