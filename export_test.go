package helm

import "github.com/helmkernel/helm/internal/admission"

// What tests see and change of a kernel.

// Room returns the weight that decisions hold in the admission queue, and how many calls wait.
func (k *Kernel) Room() (taken, waiting int) { return k.shared.admission.Counts() }

// SetRoom sets the limit of a kernel without calls.
func (k *Kernel) SetRoom(limit int) { k.shared.admission = admission.New(limit) }

const Capacity = capacity
