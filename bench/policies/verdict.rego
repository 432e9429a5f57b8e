package office

default allow := false

allow if {
	not deny
	permit
}
