//go:build unix

package filestore

import (
	"testing"

	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/crash"
)

func TestCrashKill(t *testing.T)           { crash.Kill(t) }
func TestCrashKillFindsLiars(t *testing.T) { crash.KillFindsLiars(t) }
func TestCrashChild(t *testing.T)          { crash.Child(t) }
func TestCrashCondenseKill(t *testing.T)   { crash.CondenseKill(t) }

func TestCrashOtherProcess(t *testing.T) {
	race.Alone(t)
	crash.OtherProcess(t)
}

func TestCrashAuditor(t *testing.T) { crash.Auditor(t) }
