package filestore

import (
	"testing"

	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/crash"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disk"
)

func init() {
	crash.Open = func(d disk.Disk, dir string, z crash.Sizes) (crash.Store, error) {
		s, err := open(d, dir, Options{}, sizes{z.Segment, z.Ahead})
		if err != nil {
			return nil, err
		}
		return s, nil
	}
	crash.View = func(d disk.Disk, dir string) (crash.Store, error) {
		s, err := openReadOnly(d, dir)
		if err != nil {
			return nil, err
		}
		return s, nil
	}
}

func TestCrashPowerAtEachChange(t *testing.T) {
	race.Alone(t)
	crash.PowerAtEachChange(t)
}

func TestCrashPowerUnderLoad(t *testing.T) { crash.PowerUnderLoad(t) }
func TestCrashRepairAtEachByte(t *testing.T) {
	race.Alone(t)
	crash.RepairAtEachByte(t)
}

func TestCrashDiskFails(t *testing.T) {
	race.Alone(t)
	crash.DiskFails(t)
}

func TestCrashReadingFails(t *testing.T) {
	race.Alone(t)
	crash.ReadingFails(t)
}

func TestCrashHarnessFindsLiars(t *testing.T) {
	race.Alone(t)
	crash.HarnessFindsLiars(t)
}

func TestCrashHarnessFindsRecoveryThatIsNone(t *testing.T) {
	crash.HarnessFindsRecoveryThatIsNone(t)
}

func TestCrashHarnessFindsForgedNotes(t *testing.T) { crash.HarnessFindsForgedNotes(t) }

func TestCrashCondensePower(t *testing.T) {
	race.Alone(t)
	crash.CondensePower(t)
}

func TestCrashCondenseDiskFails(t *testing.T) {
	race.Alone(t)
	crash.CondenseDiskFails(t)
}

func TestCrashCondenseFindsLiars(t *testing.T) {
	race.Alone(t)
	crash.CondenseFindsLiars(t)
}

func TestCrashLetGo(t *testing.T) {
	race.Alone(t)
	crash.LetGo(t)
}
