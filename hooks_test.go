package helm

// What tests see and change of a kernel.

func (k *Kernel) Room() (taken, waiting int) {
	k.room.mu.Lock()
	defer k.room.mu.Unlock()
	return k.room.taken, k.room.line.Len()
}

// SetRoom is for kernels without calls.
func (k *Kernel) SetRoom(limit int) { k.room.limit = limit }

const Capacity = capacity
