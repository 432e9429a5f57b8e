package check

const (
	root       = "../.." // the directory of the module
	modulePath = "github.com/helmkernel/helm"
)
