package helmtest

// An attackCase is one attack of [AdapterSuite].
type attackCase struct {
	name string
	make func(x *attack)
}

var attacks = []attackCase{
	{"01-kinds", kinds},
	{"02-changed", changedByHook},
	{"03-defaults", defaultsInjected},
	{"04-keys", oddKeys},
	{"05-numbers", oddValues},
	{"06-unknown", unknownTool},
	{"07-alias", aliases},
	{"08-streams", cutStreams},
	{"09-parallel", inParallel},
	{"10-siblings", siblings},
	{"11-approval", approvals},
	{"12-context", contexts},
	{"13-panic", panics},
	{"14-repeat", repeats},
	{"15-ways", otherWays},
	{"16-nested", nestedCalls},
	{"17-bytes", exactBytes},
	{"18-late", lateTools},
	{"story", story},
}
