# Prints from the output of go test -v which tests and packages failed, and what each printed last.
/^=== / { name = $3; if ($2 == "RUN") said[name] = ""; next } # what follows is of that test
/^ *--- FAIL: / { print "failed: " $3; printf "%s", substr(said[$3], length(said[$3]) - 4000); next }
/^ *--- (PASS|SKIP): / { delete said[$3]; next }
/^panic: |^fatal error: |^WARNING: DATA RACE/ { rest = 40 } # the start of the stacks
rest > 0 { print; rest--; next }
/^FAIL[[:space:]].|^# |^[^ ]+\.go:[0-9]+:[0-9]+: / { print; next } # a package, or what did not build
name != "" { said[name] = said[name] $0 "\n" }
